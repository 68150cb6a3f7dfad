//! Deadlines: a queue a kind. A kind's time is constant, which keeps its queue sorted, so that
//! there is neither a wheel nor a timer per request.

use super::lists::Lists;
use crate::clock::Nanos;
use crate::ring::Slot;

/// What a connection's deadline ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// Making the connection.
    Connect = 0,
    /// The request.
    Request = 1,
    /// Waiting for the server's FIN.
    Linger = 2,
}

const KINDS: [Deadline; 3] = [Deadline::Connect, Deadline::Request, Deadline::Linger];

/// At most one deadline a slot.
pub(super) struct Deadlines {
    lists: Lists<3>,
    due_ns: Vec<Nanos>,
}

impl Deadlines {
    pub(super) fn new(slots: u32) -> Self {
        Self { lists: Lists::new(slots), due_ns: Vec::with_capacity(slots as usize) }
    }

    /// Sets the slot's only deadline.
    pub(super) fn set(&mut self, slot: Slot, kind: Deadline, due_ns: Nanos) {
        self.lists.remove(slot);
        while self.due_ns.len() <= slot as usize {
            self.due_ns.push(0);
        }
        self.due_ns[slot as usize] = due_ns;
        // Behind the last that is due no later: the last one, unless a request that is sent once
        // more keeps its first deadline.
        let mut after = self.lists.last(kind as usize);
        while let Some(other) = after {
            if self.due_ns[other as usize] <= due_ns {
                break;
            }
            after = self.lists.before(other);
        }
        self.lists.insert_after(kind as usize, slot, after);
    }

    pub(super) fn clear(&mut self, slot: Slot) {
        self.lists.remove(slot);
    }

    /// When the earliest deadline is due.
    pub(super) fn next_ns(&self) -> Option<Nanos> {
        KINDS
            .iter()
            .filter_map(|&kind| self.lists.first(kind as usize))
            .map(|slot| self.due_ns[slot as usize])
            .min()
    }

    /// Takes one that is due.
    pub(super) fn expired(&mut self, now: Nanos) -> Option<(Slot, Deadline)> {
        for kind in KINDS {
            if let Some(slot) = self.lists.first(kind as usize)
                && self.due_ns[slot as usize] <= now
            {
                self.lists.remove(slot);
                return Some((slot, kind));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_expire_in_order_also_where_one_is_set_out_of_order() {
        let mut deadlines = Deadlines::new(4);
        deadlines.set(0, Deadline::Request, 100);
        deadlines.set(1, Deadline::Request, 300);
        deadlines.set(2, Deadline::Request, 200);
        deadlines.set(3, Deadline::Connect, 150);
        assert_eq!(deadlines.next_ns(), Some(100));
        assert_eq!(deadlines.expired(99), None);
        let order: Vec<_> = std::iter::from_fn(|| deadlines.expired(1_000)).collect();
        assert_eq!(
            order,
            [
                (3, Deadline::Connect),
                (0, Deadline::Request),
                (2, Deadline::Request),
                (1, Deadline::Request)
            ]
        );
        assert_eq!(deadlines.next_ns(), None);
    }

    #[test]
    fn a_slot_has_one_deadline() {
        let mut deadlines = Deadlines::new(1);
        deadlines.set(0, Deadline::Connect, 10);
        deadlines.set(0, Deadline::Request, 20);
        assert_eq!(deadlines.expired(15), None);
        deadlines.clear(0);
        assert_eq!(deadlines.expired(25), None);
    }
}
