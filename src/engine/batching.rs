//! How many completions one enter waits for in the closed model.
//!
//! Waiting for several saves CPU time and is free where the server is the bottleneck: its queue
//! is never empty. Where it is not, every response that is waited with delays the next request.
//! In a closed loop without think time the rate says which it is (Little's law: mean response
//! time = connections / rate), so the wait starts harmless by construction, and a longer one is
//! kept only where windows with it, in turns with windows without, show no lower rate.

use crate::clock::{MICROSECOND, MILLISECOND, Nanos};

/// How one enter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Completions to wait for.
    pub(super) want: u32,
    /// For so long; then one is enough.
    pub(super) min_wait_ns: Nanos,
}

impl Batch {
    pub(super) const ONE: Self = Self { want: 1, min_wait_ns: 0 };
}

/// The longer wait that is tried. With 64 connections more was not cheaper
/// (docs/BENCHMARKING.md, waits).
const LONG_NS: Nanos = 100 * MICROSECOND;
/// Share of the mean service time that a wait may always take: half of it on the average response.
const HARMLESS_SHARE: f64 = 0.02;
/// The most completions that are waited for at once.
const WANT_MAX: u32 = 64;
/// Length of a window.
const WINDOW_NS: Nanos = 5 * MILLISECOND;
/// Pairs of windows that decide.
const PAIRS: usize = 20;
/// A window with fewer responses decides nothing.
const WINDOW_RESPONSES_MIN: u64 = 50;
/// The longer wait is taken up where the median of the pairs' ratios is no lower, and given up
/// where it is lower than the second. A server that answers after 1 ms shows 0.95.
const TAKE_RATIO: f64 = 0.975;
const KEEP_RATIO: f64 = 0.965;
/// Windows between two trials: of a wait that is in use, and of one that is not.
const REST_IN_USE: u32 = 400;
const REST_UNUSED: u32 = 100;

/// The controller of one worker.
pub(super) struct Batching {
    enabled: bool,
    /// Whether the longer wait is in use.
    long: bool,
    trial: Option<Trial>,
    /// Windows until the next trial.
    rest: u32,
    window_start_ns: Nanos,
    window_responses: u64,
    window_service_ns: u64,
    harmless_ns: Nanos,
    longest_ns: Nanos,
}

/// Windows with the longer wait in turns with windows with the harmless one.
struct Trial {
    /// Responses of this pair's harmless window, once it is over.
    harmless: Option<u64>,
    ratios: [f64; PAIRS],
    pairs: usize,
}

impl Batching {
    pub(super) fn new(enabled: bool, now: Nanos) -> Self {
        Self {
            enabled,
            long: false,
            trial: None,
            rest: 0,
            window_start_ns: now,
            window_responses: 0,
            window_service_ns: 0,
            harmless_ns: 0,
            longest_ns: 0,
        }
    }

    /// A response came.
    #[inline]
    pub(super) fn response(&mut self, service_ns: Nanos) {
        self.window_responses += 1;
        self.window_service_ns += service_ns;
    }

    /// How the next enter waits, with so many requests in flight.
    #[inline]
    pub(super) fn next(&mut self, now: Nanos, in_flight: u32) -> Batch {
        if !self.enabled || in_flight < 4 {
            return Batch::ONE;
        }
        if now >= self.window_start_ns + WINDOW_NS {
            self.window_ends(now);
        }
        let min_wait_ns = self.wait_ns();
        if min_wait_ns < MICROSECOND {
            return Batch::ONE;
        }
        Batch { want: (in_flight / 2).min(WANT_MAX), min_wait_ns }
    }

    /// The longest wait that was in use: what batching may have added to a response.
    pub(super) fn longest_ns(&self) -> Nanos {
        self.longest_ns
    }

    fn wait_ns(&self) -> Nanos {
        let long = match &self.trial {
            Some(trial) => trial.harmless.is_some(),
            None => self.long,
        };
        if long { LONG_NS.max(self.harmless_ns) } else { self.harmless_ns }
    }

    fn window_ends(&mut self, now: Nanos) {
        let length_ns = now - self.window_start_ns;
        let responses = self.window_responses;
        self.longest_ns = self.longest_ns.max(self.wait_ns());
        if let Some(mean_ns) = self.window_service_ns.checked_div(responses) {
            self.harmless_ns = ((mean_ns as f64 * HARMLESS_SHARE) as Nanos).min(LONG_NS);
        }
        // A window that a stall made longer is compared by its rate.
        let per_window = (responses as f64 * WINDOW_NS as f64 / length_ns as f64) as u64;
        self.window_start_ns = now;
        self.window_responses = 0;
        self.window_service_ns = 0;
        self.judge(per_window);
    }

    fn judge(&mut self, responses: u64) {
        if responses < WINDOW_RESPONSES_MIN {
            self.trial = None;
            self.long = false;
            return;
        }
        let Some(trial) = &mut self.trial else {
            self.rest = self.rest.saturating_sub(1);
            if self.rest == 0 {
                self.trial = Some(Trial { harmless: None, ratios: [0.0; PAIRS], pairs: 0 });
            }
            return;
        };
        let Some(harmless) = trial.harmless.take() else {
            trial.harmless = Some(responses);
            return;
        };
        trial.ratios[trial.pairs] = responses as f64 / harmless as f64;
        trial.pairs += 1;
        if trial.pairs < PAIRS {
            return;
        }
        trial.ratios.sort_by(f64::total_cmp);
        let median = f64::midpoint(trial.ratios[PAIRS / 2 - 1], trial.ratios[PAIRS / 2]);
        self.trial = None;
        self.long = median >= if self.long { KEEP_RATIO } else { TAKE_RATIO };
        self.rest = if self.long { REST_IN_USE } else { REST_UNUSED };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closed loop in steps of one enter: the rate as a function of the wait in use.
    fn run(seconds: u64, rate_at: impl Fn(Nanos) -> f64, service_ns: Nanos) -> (Batching, Nanos) {
        let mut batching = Batching::new(true, 0);
        let mut now = 0;
        let mut carry = 0.0;
        let mut wait_ns = 0;
        while now < seconds * 1_000_000_000 {
            let step_ns = 100_000;
            carry += rate_at(wait_ns) * step_ns as f64 / 1e9;
            while carry >= 1.0 {
                carry -= 1.0;
                batching.response(service_ns);
            }
            now += step_ns;
            wait_ns = batching.next(now, 64).min_wait_ns;
        }
        (batching, wait_ns)
    }

    #[test]
    fn a_server_that_is_the_bottleneck_is_waited_for() {
        let (batching, _) = run(2, |_| 120_000.0, 500_000);
        assert!(batching.long);
    }

    #[test]
    fn a_server_with_a_delay_is_not() {
        // 64 connections, 1 ms, and half of the wait on top.
        let (batching, wait_ns) =
            run(2, |wait_ns| 64e9 / (1_050_000.0 + wait_ns as f64 / 2.0), 1_050_000);
        assert!(!batching.long);
        assert!(wait_ns <= LONG_NS, "{wait_ns}");
    }

    #[test]
    fn a_slow_loop_and_a_disabled_one_wait_for_one() {
        let mut batching = Batching::new(true, 0);
        assert_eq!(batching.next(1, 3), Batch::ONE);
        let mut batching = Batching::new(false, 0);
        batching.response(1_000_000_000);
        assert_eq!(batching.next(20 * MILLISECOND, 64), Batch::ONE);
    }
}
