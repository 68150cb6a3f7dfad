//! What is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::connection::Connection;
use crate::clock::Nanos;
use crate::ring::Slot;

/// Void timers that are kept before they are swept out.
const MAX_VOID: usize = 1024;

/// Timers of connections, at most one that counts for each.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    /// How many counted when the void ones were last swept out.
    swept_len: usize,
}

/// A timer; it is void once its connection is another or waits for another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    due_ns: Nanos,
    slot: Slot,
    generation: u32,
}

impl Timer {
    fn counts(&self, connections: &[Connection]) -> bool {
        let connection = &connections[self.slot as usize];
        connection.generation == self.generation && connection.due_ns == Some(self.due_ns)
    }
}

impl Timers {
    /// Sets the timer of a connection; the one that it had is void.
    pub fn set(&mut self, connections: &mut [Connection], slot: Slot, due_ns: Nanos) {
        let connection = &mut connections[slot as usize];
        connection.due_ns = Some(due_ns);
        let generation = connection.generation;
        self.heap.push(Reverse(Timer { due_ns, slot, generation }));
        if self.heap.len() > 2 * self.swept_len + MAX_VOID {
            self.heap.retain(|Reverse(timer)| timer.counts(connections));
            self.swept_len = self.heap.len();
        }
    }

    /// When the next is due.
    pub fn next_ns(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(timer)| timer.due_ns)
    }

    /// A connection whose timer is due; the timer is unset.
    pub fn pop(&mut self, connections: &mut [Connection], now_ns: Nanos) -> Option<Slot> {
        while self.next_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            let Reverse(timer) = self.heap.pop()?;
            if timer.counts(connections) {
                connections[timer.slot as usize].due_ns = None;
                return Some(timer.slot);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(n: usize) -> Vec<Connection> {
        let mut connections: Vec<_> = (0..n).map(|_| Connection::free()).collect();
        connections.iter_mut().for_each(|connection| connection.open(None));
        connections
    }

    #[test]
    fn fires_in_order_and_not_before() {
        let mut connections = connections(3);
        let mut timers = Timers::default();
        for (slot, due_ns) in [(0, 30), (1, 10), (2, 20)] {
            timers.set(&mut connections, slot, due_ns);
        }
        assert_eq!((timers.next_ns(), timers.pop(&mut connections, 9)), (Some(10), None));
        assert_eq!(timers.pop(&mut connections, 25), Some(1));
        assert_eq!(timers.pop(&mut connections, 25), Some(2));
        assert_eq!(timers.pop(&mut connections, 25), None);
        assert_eq!(timers.pop(&mut connections, 30), Some(0));
    }

    #[test]
    fn a_timer_of_an_earlier_connection_or_time_is_void() {
        let mut connections = connections(2);
        let mut timers = Timers::default();
        timers.set(&mut connections, 0, 10);
        timers.set(&mut connections, 1, 10);
        timers.set(&mut connections, 1, 40);
        connections[0].state = super::super::connection::State::Free;
        connections[0].open(None);
        assert_eq!(timers.pop(&mut connections, 39), None);
        assert_eq!(timers.pop(&mut connections, 40), Some(1));
    }

    #[test]
    fn void_timers_do_not_pile_up() {
        let mut connections = connections(1);
        let mut timers = Timers::default();
        for due_ns in 0..100_000 {
            timers.set(&mut connections, 0, due_ns);
        }
        assert!(timers.heap.len() <= MAX_VOID + 2, "{}", timers.heap.len());
    }
}
