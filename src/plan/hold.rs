//! Connections in levels, held and looked at.

use std::fmt;

use super::{Load, Plan, Ratio};
use crate::judge::objective::Objective;

/// What `ringload hold` is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldPlan {
    /// One plan a target, one or two, each with a [`Load::Hold`] of the same levels. They are
    /// carried out one after the other.
    pub targets: Vec<Plan>,
    /// What ends it, any of them.
    pub abort_if: Vec<Objective>,
    /// Whether the number of threads was asked for; if not, there may be more of them than CPUs
    /// where one ring could not hold its share of the connections.
    pub threads_asked: bool,
    /// Whether the lowest level, no connections, was put in front of those that were asked for.
    pub base_added: bool,
}

/// What goes over the connections that are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// Nothing.
    #[default]
    Idle,
    /// Every connection asks again as soon as it has its answer.
    Busy,
    /// So many requests a second, in turn over all.
    Rate(Ratio),
}

/// As it is typed.
impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Busy => f.write_str("busy"),
            Self::Rate(rate) => {
                let text = rate.to_string();
                // What is below one a second may come in minutes or hours.
                let period = if text.contains('/') { "" } else { "/s" };
                write!(f, "{text}{period}")
            }
        }
    }
}

/// The levels of a plan's load, connections each, ascending; none of another kind of load.
#[must_use]
pub fn levels(plan: &Plan) -> &[u32] {
    match &plan.load {
        Load::Hold { levels, .. } => levels,
        Load::Closed { .. } | Load::Open { .. } => &[],
    }
}
