//! One second of one worker, and how its histogram travels: out with the second, back when the
//! second is dropped. Nothing is allocated while the load runs.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::distribution::Distribution;
use crate::clock::{Nanos, SECOND};

/// Histograms beside the one in use. Where the control thread has kept them all, a second is
/// merged into the next.
const SPARES: usize = 8;

/// Significant digits of a second's percentiles: 18 KiB a histogram instead of 130.
pub const SECOND_DIGITS: u8 = 2;

/// What happened in a second; `open` is what was open at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondCounts {
    /// Arrivals (closed model: requests wanted).
    pub scheduled: u64,
    /// Requests started.
    pub started: u64,
    /// Complete responses.
    pub completed: u64,
    /// Failures.
    pub failed: u64,
    /// Responses of status 4xx and 5xx.
    pub http_errors: u64,
    /// Connections open.
    pub open: u64,
    /// Bytes taken from the kernel.
    pub received_bytes: u64,
    /// The most that the generator was late by.
    pub lag_max_ns: Nanos,
}

/// One second of one worker, for progress and the series.
#[derive(Debug)]
pub struct Second {
    /// Seconds since the start of recorded time.
    pub index: u32,
    /// How many seconds it covers: 1, or more where no spare histogram was there.
    pub span: u32,
    /// Its end, nanoseconds since the start of recorded time; whole seconds but for the last.
    pub until_ns: Nanos,
    /// Its counters.
    pub counts: SecondCounts,
    response: Option<Box<Distribution<u32>>>,
    home: SyncSender<Box<Distribution<u32>>>,
}

/// The worker's end: the second in progress and the spare histograms.
pub(super) struct Seconds {
    start_ns: Nanos,
    /// Where the second in progress ends, on the run's clock; before the first, where that begins.
    pub(super) ends_ns: Nanos,
    begun: bool,
    first_index: u32,
    /// Response times of the second in progress.
    pub(super) response: Box<Distribution<u32>>,
    /// The most that the generator was late by in the second in progress.
    pub(super) lag_max_ns: Nanos,
    /// The totals when it began.
    before: SecondCounts,
    out: SyncSender<Second>,
    home: SyncSender<Box<Distribution<u32>>>,
    spares: Receiver<Box<Distribution<u32>>>,
}

impl Second {
    /// Response times of this second.
    ///
    /// # Panics
    /// Never: the histogram is taken out only by `drop`.
    #[must_use]
    pub fn response(&self) -> &Distribution<u32> {
        self.response.as_ref().expect("the histogram leaves with the second")
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        if let Some(mut histogram) = self.response.take() {
            histogram.reset();
            // Nobody takes it where the worker is gone.
            let _ = self.home.try_send(histogram);
        }
    }
}

impl SecondCounts {
    /// Lays another worker's second over this one.
    pub fn merge(&mut self, other: &Self) {
        self.add_flow(other);
        self.open += other.open;
    }

    /// Adds what came after it: sums, but the later `open`.
    pub fn follow(&mut self, later: &Self) {
        self.add_flow(later);
        self.open = later.open;
    }

    fn add_flow(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.started += other.started;
        self.completed += other.completed;
        self.failed += other.failed;
        self.http_errors += other.http_errors;
        self.received_bytes += other.received_bytes;
        self.lag_max_ns = self.lag_max_ns.max(other.lag_max_ns);
    }

    /// Whether nothing happened.
    fn is_quiet(&self) -> bool {
        Self { open: 0, ..*self } == Self::default()
    }

    /// What was added to `before`; `open` and the lag as they are.
    fn since(&self, before: &Self) -> Self {
        Self {
            scheduled: self.scheduled - before.scheduled,
            started: self.started - before.started,
            completed: self.completed - before.completed,
            failed: self.failed - before.failed,
            http_errors: self.http_errors - before.http_errors,
            received_bytes: self.received_bytes - before.received_bytes,
            ..*self
        }
    }
}

impl Seconds {
    pub(super) fn new(start_ns: Nanos) -> (Self, Receiver<Second>) {
        let (home, spares) = sync_channel(SPARES + 1);
        for _ in 0..SPARES {
            home.try_send(Box::new(Distribution::new(SECOND_DIGITS)))
                .expect("the channel holds all spares");
        }
        // As long as there are histograms, so that handing over never finds it full.
        let (out, seconds) = sync_channel(SPARES + 1);
        let this = Self {
            start_ns,
            ends_ns: start_ns,
            begun: false,
            first_index: 0,
            response: Box::new(Distribution::new(SECOND_DIGITS)),
            lag_max_ns: 0,
            before: SecondCounts::default(),
            out,
            home,
            spares,
        };
        (this, seconds)
    }

    /// Moves the start of the first second, which has not begun.
    pub(super) fn start(&mut self, start_ns: Nanos) {
        (self.start_ns, self.ends_ns, self.begun) = (start_ns, start_ns, false);
    }

    /// Hands the second over that has ended by `now`; `totals` are the worker's so far.
    #[cold]
    pub(super) fn roll(&mut self, now: Nanos, totals: SecondCounts) {
        let next_index = ((now - self.start_ns) / SECOND) as u32;
        if !self.begun {
            self.begun = true;
            // What the warm-up received belongs to no second.
            self.before.received_bytes = totals.received_bytes;
            self.ends_ns = self.start_ns + (Nanos::from(next_index) + 1) * SECOND;
            return;
        }
        let Ok(spare) = self.spares.try_recv() else {
            self.ends_ns = self.start_ns + (Nanos::from(next_index) + 1) * SECOND;
            return;
        };
        let second = self.take(self.ends_ns - self.start_ns, totals, spare);
        // Where nobody listens any more the second is dropped, and its histogram comes home.
        let _ = self.out.try_send(second);
        self.first_index = next_index;
        self.ends_ns = self.start_ns + (Nanos::from(next_index) + 1) * SECOND;
    }

    /// The second in progress, cut off at `now`; `None` where it is empty and past `end_ns`.
    pub(super) fn last(
        mut self,
        now: Nanos,
        end_ns: Option<Nanos>,
        totals: SecondCounts,
    ) -> Option<Second> {
        let begins_ns = self.start_ns + Nanos::from(self.first_index) * SECOND;
        let until_ns = now.max(begins_ns).saturating_sub(self.start_ns);
        let second = self.take(until_ns, totals, Box::new(Distribution::new(SECOND_DIGITS)));
        let beyond = now <= begins_ns || end_ns.is_some_and(|end| begins_ns >= end);
        let quiet = second.counts.is_quiet() && second.response().is_empty();
        (!(beyond && quiet)).then_some(second)
    }

    fn take(
        &mut self,
        until_ns: Nanos,
        totals: SecondCounts,
        spare: Box<Distribution<u32>>,
    ) -> Second {
        let end_index = until_ns.div_ceil(SECOND).max(Nanos::from(self.first_index) + 1) as u32;
        let second = Second {
            index: self.first_index,
            span: end_index - self.first_index,
            until_ns,
            counts: SecondCounts { lag_max_ns: self.lag_max_ns, ..totals.since(&self.before) },
            response: Some(std::mem::replace(&mut self.response, spare)),
            home: self.home.clone(),
        };
        self.lag_max_ns = 0;
        self.before = totals;
        second
    }
}
