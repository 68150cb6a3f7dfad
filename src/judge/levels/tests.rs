use proptest::prelude::*;

use super::*;

fn course(levels: &[u64]) -> Course {
    Course {
        levels: levels.to_vec(),
        dwell_ns: 3 * SECOND,
        patience_ns: 2 * SECOND,
        open_interval_ns: 10 * MILLISECOND,
    }
}

/// A server that lets in so many connections, and where they are.
struct World {
    now: Nanos,
    seen: Seen,
    to_open: u64,
    /// Connections opened at a look.
    pace: u64,
    /// The most that it lets in.
    room: u64,
}

impl World {
    fn new(room: u64) -> Self {
        Self { now: SECOND, seen: Seen::default(), to_open: 0, pace: 50, room }
    }

    fn ask_for(&mut self, wanted: u64) {
        self.to_open = wanted.saturating_sub(self.seen.open);
        self.seen.opening = self.to_open;
    }

    /// Time goes on.
    fn turn(&mut self) {
        self.now += LOOK_INTERVAL_NS;
        for _ in 0..self.pace.min(self.to_open) {
            self.to_open -= 1;
            self.seen.opening -= 1;
            self.seen.attempted += 1;
            if self.seen.open < self.room {
                self.seen.open += 1;
                self.seen.opened += 1;
            } else {
                self.seen.failed += 1;
            }
        }
    }

    fn close(&mut self, count: u64) {
        self.seen.open -= count;
        self.seen.closed_by_server += count;
    }
}

/// Goes all the way; `meddle` may change the world before each look, given the level.
fn climb(
    course: Course,
    world: &mut World,
    mut meddle: impl FnMut(usize, &mut World),
) -> Vec<Stay> {
    let levels = course.levels.clone();
    let mut ascent = Ascent::begin(course, world.now);
    world.ask_for(levels[0]);
    for _ in 0..1_000_000 {
        world.turn();
        meddle(ascent.level(), world);
        if !ascent.look(world.now, &world.seen) {
            continue;
        }
        match ascent.leave(world.now, &world.seen) {
            Some(level) => world.ask_for(levels[level]),
            None => return ascent.into_stays(),
        }
    }
    panic!("it does not end");
}

#[test]
fn every_level_is_reached_and_held() {
    let mut world = World::new(u64::MAX);
    let stays = climb(course(&[0, 100, 400]), &mut world, |_, _| {});
    assert_eq!(stays.len(), 3);
    let opened: Vec<u64> = stays.iter().map(Stay::opened).collect();
    assert_eq!(opened, [0, 100, 300]);
    for stay in &stays {
        assert_eq!((stay.mean_open, stay.overdue), (stay.wanted as f64, 0));
        assert_eq!((stay.failed(), stay.closed_by_server(), stay.first_closed_ns), (0, 0, None));
        assert!(stay.is_steady());
        let dwelled_ns = stay.dwelled_ns.unwrap();
        let held_ns = stay.left_ns - dwelled_ns;
        assert!((3 * SECOND..3 * SECOND + 2 * LOOK_INTERVAL_NS).contains(&held_ns));
        assert!(stay.settled_from_ns() >= dwelled_ns + 2 * SECOND);
        assert!(stay.settled_from_ns() < stay.left_ns);
    }
    assert!(stays.windows(2).all(|two| two[0].left_ns == two[1].began_ns));
}

#[test]
fn a_full_server_does_not_hold_it_up() {
    let mut world = World::new(150);
    let stays = climb(course(&[100, 400]), &mut world, |_, _| {});
    assert_eq!((stays[1].opened(), stays[1].failed()), (50, 250));
    assert_eq!((stays[1].mean_open, stays[1].overdue), (150.0, 0));
    assert!(stays[1].dwelled_ns.unwrap() - stays[1].began_ns < SECOND);
}

#[test]
fn what_never_opens_is_waited_for_no_longer_than_it_may_take() {
    let mut world = World::new(u64::MAX);
    world.pace = 0;
    let stays = climb(course(&[100]), &mut world, |_, _| {});
    // A second at 100 a second, and the patience.
    let waited_ns = stays[0].dwelled_ns.unwrap() - stays[0].began_ns;
    assert!((3 * SECOND..3 * SECOND + LOOK_INTERVAL_NS).contains(&waited_ns), "{waited_ns}");
    assert_eq!((stays[0].overdue, stays[0].mean_open), (100, 0.0));
}

#[test]
fn what_is_refused_ever_more_slowly_is_not_waited_for() {
    let mut world = World::new(0);
    let mut turns = 0;
    // One in a second, of which none is let in.
    world.pace = 0;
    let stays = climb(course(&[0, 100]), &mut world, |_, world| {
        turns += 1;
        world.pace = u64::from(turns % 50 == 0);
    });
    let waited_ns = stays[1].dwelled_ns.unwrap() - stays[1].began_ns;
    assert!((3 * SECOND..4 * SECOND).contains(&waited_ns), "{waited_ns}");
    assert_eq!((stays[1].opened(), stays[1].mean_open), (0, 0.0));
    assert!(stays[1].failed() > 0 && stays[1].overdue > 90, "{:?}", stays[1]);
}

#[test]
fn what_is_to_open_slowly_is_waited_for() {
    let mut world = World::new(u64::MAX);
    let mut turns = 0;
    // One in 10 s was asked for, and comes.
    let course = Course { open_interval_ns: 10 * SECOND, ..course(&[5]) };
    world.pace = 0;
    let stays = climb(course, &mut world, |_, world| {
        turns += 1;
        world.pace = u64::from(turns % 500 == 0);
    });
    assert_eq!((stays[0].overdue, stays[0].mean_open), (0, 5.0));
}

#[test]
fn what_opens_more_slowly_than_asked_for_is_waited_for() {
    let mut world = World::new(u64::MAX);
    let mut turns = 0;
    // One in 200 ms, where a hundred a second were asked for.
    world.pace = 0;
    let stays = climb(course(&[100]), &mut world, |_, world| {
        turns += 1;
        world.pace = u64::from(turns % 10 == 0);
    });
    assert_eq!((stays[0].overdue, stays[0].mean_open), (0, 100.0));
    assert!(stays[0].dwelled_ns.unwrap() - stays[0].began_ns >= 19 * SECOND);
}

#[test]
fn workers_that_have_not_looked_yet_are_waited_for() {
    let mut ascent = Ascent::begin(course(&[5]), 0);
    // Nobody has begun to open anything.
    assert!(!ascent.look(10 * MILLISECOND, &Seen::default()));
    assert!(!ascent.is_dwelling());
    let there = Seen { open: 5, attempted: 5, opened: 5, ..Seen::default() };
    assert!(!ascent.look(20 * MILLISECOND, &there));
    assert!(ascent.is_dwelling());
}

#[test]
fn connections_that_came_meanwhile_are_not_waited_for_for_ever() {
    let mut ascent = Ascent::begin(course(&[5]), 0);
    // Five were missing when it was asked for, and only four were when the workers looked.
    let there = Seen { open: 5, attempted: 4, opened: 4, ..Seen::default() };
    assert!(!ascent.look(20 * MILLISECOND, &there));
    assert!(!ascent.is_dwelling());
    assert!(!ascent.look(SECOND, &there));
    assert!(ascent.is_dwelling());
}

#[test]
fn what_the_server_closes_is_seen_at_its_level() {
    let mut world = World::new(u64::MAX);
    let mut closed = false;
    let stays = climb(course(&[0, 100, 200]), &mut world, |level, world| {
        if level == 1 && world.seen.open == 100 && !closed {
            closed = true;
            world.close(30);
        }
    });
    assert_eq!(stays[1].closed_by_server(), 30);
    assert!(stays[1].first_closed_ns.is_some() && stays[2].first_closed_ns.is_none());
    // Closed before the figures settled: the number stood still, and is what counts.
    assert_eq!((stays[1].mean_open, stays[1].is_steady()), (70.0, true));
    assert_eq!(stays[2].opened(), 130);
}

#[test]
fn a_level_that_melts_away_while_it_is_read_is_not_steady() {
    let mut world = World::new(u64::MAX);
    let stays = climb(course(&[300]), &mut world, |_, world| {
        if world.seen.open > 0 && world.seen.opening == 0 {
            world.close(1);
        }
    });
    let stay = &stays[0];
    assert!(!stay.is_steady() && stay.mean_open > 100.0 && stay.mean_open < 300.0, "{stay:?}");
}

#[test]
fn a_level_can_be_left_early() {
    let mut world = World::new(u64::MAX);
    let mut ascent = Ascent::begin(course(&[0, 100]), world.now);
    world.turn();
    assert!(!ascent.look(world.now, &world.seen));
    ascent.leave(world.now, &world.seen);
    world.ask_for(100);
    world.turn();
    ascent.look(world.now, &world.seen);
    ascent.leave(world.now, &world.seen);
    let stays = ascent.into_stays();
    assert_eq!(stays.len(), 2);
    assert!(!stays[1].is_steady() && stays[1].dwelled_ns.is_none());
    assert_eq!((stays[1].mean_open, stays[1].opened()), (50.0, 50));
}

#[test]
fn its_length_is_known_beforehand() {
    assert_eq!(course(&[0, 100, 400]).length_ns(), 4 * SECOND + 9 * SECOND);
}

proptest! {
    #[test]
    fn it_ends_whatever_the_server_does(
        mut levels in proptest::collection::vec(0_u64..300, 1..5),
        room in 0_u64..400,
        pace in 0_u64..20,
        closes in proptest::collection::vec(0_u64..3, 1..50),
    ) {
        levels.sort_unstable();
        let mut world = World::new(room);
        world.pace = pace;
        let mut closes = closes.into_iter().cycle();
        let stays = climb(course(&levels), &mut world, |_, world| {
            let count = closes.next().unwrap_or(0).min(world.seen.open);
            world.close(count);
        });
        prop_assert_eq!(stays.len(), levels.len());
        let sum = |count: fn(&Stay) -> u64| stays.iter().map(count).sum::<u64>();
        prop_assert_eq!(sum(Stay::opened), world.seen.opened);
        prop_assert_eq!(sum(Stay::failed), world.seen.failed);
        prop_assert_eq!(sum(Stay::closed_by_server), world.seen.closed_by_server);
        for stay in &stays {
            let (fewest, most) = stay.extremes;
            prop_assert!(fewest as f64 <= stay.mean_open && stay.mean_open <= most as f64);
            prop_assert!(stay.began_ns <= stay.settled_from_ns());
            prop_assert!(stay.settled_from_ns() <= stay.left_ns);
        }
    }
}
