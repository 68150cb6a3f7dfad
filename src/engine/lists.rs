//! Doubly linked lists over slot numbers: every slot is in at most one list of a set, and leaves
//! it in constant time. Nothing is allocated after a slot was first seen.

use crate::ring::Slot;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    /// Which list it is in, or [`NONE`].
    list: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// `N` lists over the same slots.
pub(super) struct Lists<const N: usize> {
    links: Vec<Link>,
    ends: [Ends; N],
}

impl<const N: usize> Lists<N> {
    pub(super) fn new(slots: u32) -> Self {
        let ends = Ends { first: NONE, last: NONE };
        Self { links: Vec::with_capacity(slots as usize), ends: [ends; N] }
    }

    pub(super) fn first(&self, list: usize) -> Option<Slot> {
        some(self.ends[list].first)
    }

    pub(super) fn last(&self, list: usize) -> Option<Slot> {
        some(self.ends[list].last)
    }

    pub(super) fn before(&self, slot: Slot) -> Option<Slot> {
        some(self.links[slot as usize].previous)
    }

    /// The list that a slot is in.
    pub(super) fn list_of(&self, slot: Slot) -> Option<usize> {
        self.links.get(slot as usize).and_then(|link| some(link.list)).map(|list| list as usize)
    }

    pub(super) fn push_last(&mut self, list: usize, slot: Slot) {
        self.insert_after(list, slot, self.last(list));
    }

    /// Puts a slot behind another one of the list, or first.
    pub(super) fn insert_after(&mut self, list: usize, slot: Slot, after: Option<Slot>) {
        while self.links.len() <= slot as usize {
            self.links.push(Link { previous: NONE, next: NONE, list: NONE });
        }
        assert_eq!(self.links[slot as usize].list, NONE, "slot {slot} is in a list already");
        let next = match after {
            Some(after) => self.links[after as usize].next,
            None => self.ends[list].first,
        };
        self.links[slot as usize] =
            Link { previous: after.unwrap_or(NONE), next, list: list as u32 };
        match after {
            Some(after) => self.links[after as usize].next = slot,
            None => self.ends[list].first = slot,
        }
        match some(next) {
            Some(next) => self.links[next as usize].previous = slot,
            None => self.ends[list].last = slot,
        }
    }

    /// Takes a slot out of whatever list it is in.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(list) = self.list_of(slot) else { return };
        let link = self.links[slot as usize];
        match some(link.previous) {
            Some(previous) => self.links[previous as usize].next = link.next,
            None => self.ends[list].first = link.next,
        }
        match some(link.next) {
            Some(next) => self.links[next as usize].previous = link.previous,
            None => self.ends[list].last = link.previous,
        }
        self.links[slot as usize] = Link { previous: NONE, next: NONE, list: NONE };
    }

    pub(super) fn pop_first(&mut self, list: usize) -> Option<Slot> {
        let slot = self.first(list)?;
        self.remove(slot);
        Some(slot)
    }

    pub(super) fn pop_last(&mut self, list: usize) -> Option<Slot> {
        let slot = self.last(list)?;
        self.remove(slot);
        Some(slot)
    }
}

fn some(index: u32) -> Option<u32> {
    (index != NONE).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn lists_behave_like_queues(steps in prop::collection::vec((0_u8..5, 0_u32..12, 0_usize..2), 0..200)) {
            let mut lists = Lists::<2>::new(12);
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (step, slot, list) in steps {
                let inside = model.iter().any(|queue| queue.contains(&slot));
                match step {
                    0 if !inside => { lists.push_last(list, slot); model[list].push_back(slot); }
                    1 => { lists.remove(slot); for queue in &mut model { queue.retain(|&s| s != slot); } }
                    2 => prop_assert_eq!(lists.pop_first(list), model[list].pop_front()),
                    3 => prop_assert_eq!(lists.pop_last(list), model[list].pop_back()),
                    4 if !inside => { lists.insert_after(list, slot, None); model[list].push_front(slot); }
                    _ => {}
                }
                for (list, queue) in model.iter().enumerate() {
                    prop_assert_eq!(lists.first(list), queue.front().copied());
                    prop_assert_eq!(lists.last(list), queue.back().copied());
                }
            }
        }
    }
}
