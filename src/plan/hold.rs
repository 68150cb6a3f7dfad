//! Connections in levels, held and looked at.

use super::{Load, Plan, Ratio};
use crate::clock::Nanos;
use crate::judge::objective::Objective;

/// What `ringload hold` is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldPlan {
    /// One plan a target, one or two, each with a [`Load::Hold`] of the same levels. They are
    /// carried out one after the other.
    pub targets: Vec<Plan>,
    /// How long a level is held once its connections are there, nanoseconds.
    pub dwell_ns: Nanos,
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

/// The levels of a plan's load, connections each, ascending; none of another kind of load.
#[must_use]
pub fn levels(plan: &Plan) -> &[u32] {
    match &plan.load {
        Load::Hold { levels, .. } => levels,
        Load::Closed { .. } | Load::Open { .. } => &[],
    }
}
