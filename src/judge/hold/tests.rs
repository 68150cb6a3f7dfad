use super::*;
use crate::judge::levels::Seen;
use crate::stats::result::{ProcessSample, Sample};
use crate::stats::samples::closed_run;

const AROUND: Circumstances = Circumstances { zero_ns: SECOND, idle: true, first_request: true };
const KIB: u64 = 1_024;

/// Levels of 10 s each, one after the other, reached in 1 s, and nothing odd about them.
fn levels(counts: &[u64]) -> Vec<Level> {
    let mut before = Seen::default();
    let mut began_ns = SECOND;
    counts
        .iter()
        .map(|&count| {
            let after = Seen { open: count, opened: count, attempted: count, ..before };
            let stay = Stay {
                wanted: count,
                began_ns,
                dwelled_ns: Some(began_ns + SECOND),
                left_ns: began_ns + 10 * SECOND,
                before,
                after,
                mean_open: count as f64,
                extremes: (count, count),
                ..Stay::default()
            };
            before = after;
            began_ns += 10 * SECOND;
            Level { stay, ..Level::default() }
        })
        .collect()
}

/// A sample a second of a server that needs 4 MiB, and `each` bytes for each of its connections.
fn row(source: &str, counts: &[u64], each: u64) -> WatchRow {
    let samples = counts.iter().enumerate().flat_map(|(level, count)| {
        (0..10).map(move |second| {
            let rss = Some(4 * KIB * KIB + count * each);
            Sample {
                t_s: (level * 10 + second) as f64 + 0.5,
                mem_available: Some(800 * KIB * KIB - count * each),
                tcp_mem_bytes: Some(count * KIB),
                slab_bytes: Some(10 * KIB),
                processes: vec![ProcessSample { pid: 7, rss, ..ProcessSample::default() }],
                ..Sample::default()
            }
        })
    });
    WatchRow { source: source.into(), samples: samples.collect(), ..WatchRow::default() }
}

#[test]
fn a_connections_cost_comes_out() {
    let counts = [0, 1_000, 5_000];
    let held = conclude(levels(&counts), &[row("name:nginx", &counts, 45 * KIB)], AROUND);
    let cost = &held.per_connection;
    assert!((cost.user_bytes.unwrap() - 45.0 * 1_024.0).abs() < 1e-6, "{cost:?}");
    assert!((cost.kernel_bytes.unwrap() - 1_024.0).abs() < 1e-6, "{cost:?}");
    assert!(cost.stderr.unwrap() < 1e-3 && cost.levels == 3, "{cost:?}");
    let fit = held.capacity.unwrap();
    assert_eq!((fit.mem_available, fit.reserve), (800 * KIB * KIB, 40 * KIB * KIB));
    assert!((16_900..16_950).contains(&fit.connections), "{fit:?}");
    let open: Vec<u64> = held.levels.iter().map(|level| level.open).collect();
    assert_eq!(open, counts);
    assert!(held.levels.iter().all(|level| level.fitted && level.notes.is_empty()));
    assert_eq!((held.levels[1].began_s, held.levels[1].settled_s), (10.0, Some(11.0)));
    assert!(held.notes.len() == 1 && held.notes[0].contains("both ends"), "{:?}", held.notes);
}

#[test]
fn this_machines_socket_caches_are_nearer_than_all_of_its_kernel() {
    let counts = [0, 1_000];
    let mut read = levels(&counts);
    for (level, kernel) in read.iter_mut().zip([500, 2_000_500]) {
        level.reading = Reading { pss: Some(9), kernel: Some(kernel), own_rss: Some(8) };
    }
    let held = conclude(read.clone(), &[row("name:nginx", &counts, KIB)], AROUND);
    assert_eq!(held.per_connection.kernel_bytes, Some(2_000.0));
    assert_eq!((held.levels[0].server.pss, held.levels[0].generator.rss), (Some(9), Some(8)));
    // Of another machine they say nothing.
    let rows = [row("cmd:ssh host ringload watch", &counts, KIB)];
    assert_eq!(conclude(read, &rows, AROUND).per_connection.kernel_bytes, Some(1_024.0));
    assert_eq!((whose(&rows), whose(&[])), (Whose::Theirs, Whose::Ours));
}

#[test]
fn a_level_that_did_not_stand_still_is_no_point() {
    let counts = [0, 1_000, 5_000];
    let mut melted = levels(&counts);
    let stay = &mut melted[2].stay;
    stay.extremes = (2_000, 5_000);
    stay.after.closed_by_server = 3_000;
    stay.first_closed_ns = Some(stay.began_ns + 5 * SECOND);
    let held = conclude(melted, &[row("name:nginx", &counts, KIB)], AROUND);
    assert_eq!(held.per_connection.levels, 2);
    assert!(!held.levels[2].fitted);
    let notes = held.levels[2].notes.join("; ");
    // The first were opened 10 s before.
    assert!(
        notes.contains("server closed 3,000 of them after about 15s (its keep-alive"),
        "{notes}"
    );
    assert!(notes.contains("from 2,000 to 5,000"), "{notes}");
}

#[test]
fn what_closes_is_guessed_by_what_is_sent() {
    let note = |around| {
        let mut levels = levels(&[5]);
        levels[0].stay.after.closed_by_server = 1;
        levels[0].stay.first_closed_ns = Some(61 * SECOND);
        conclude(levels, &[], around).levels[0].notes[0].clone()
    };
    assert!(
        note(Circumstances { first_request: false, ..AROUND }).contains("timeout for a request")
    );
    let mut soon = levels(&[5]);
    soon[0].stay.after.closed_by_server = 5;
    soon[0].stay.first_closed_ns = Some(soon[0].stay.began_ns + SECOND / 5);
    let notes = &conclude(soon, &[], AROUND).levels[0].notes;
    assert_eq!(notes[0], "server closed 5 of them at once");
    assert_eq!(
        note(Circumstances { idle: false, ..AROUND }),
        "server closed 1 of them after about 1m"
    );
}

#[test]
fn without_a_watch_it_says_what_to_add() {
    let held = conclude(levels(&[0, 10]), &[], AROUND);
    assert_eq!((held.per_connection, held.capacity), (PerConnection::default(), None));
    assert!(held.notes[0].contains("--watch name:nginx"), "{:?}", held.notes);
    assert!(held.levels[1].notes[0].contains("nobody saw"));
}

#[test]
fn one_level_makes_no_line_and_says_so() {
    let held = conclude(levels(&[0]), &[row("name:nginx", &[0], KIB)], AROUND);
    assert_eq!(held.per_connection.user_bytes, None);
    assert!(held.notes[0].contains("fewer than two levels"), "{:?}", held.notes);
}

#[test]
fn failures_and_latecomers_are_told() {
    let mut odd = levels(&[0, 10]);
    odd[1].stay.after.failed = 3;
    odd[1].stay.overdue = 2;
    let held = conclude(odd, &[row("name:nginx", &[0, 10], KIB)], AROUND);
    let notes = held.levels[1].notes.join("; ");
    assert!(notes.contains("3 could not be opened") && notes.contains("2 were still"), "{notes}");
}

#[test]
fn memory_that_is_kept_bends_the_second_line() {
    let counts = [0, 1_000];
    let levels_of = |base: u64, top: u64| {
        let mut held = conclude(levels(&counts), &[row("name:nginx", &counts, KIB)], AROUND).levels;
        (held[0].server.rss, held[1].server.rss) = (Some(base), Some(top));
        held
    };
    let first = levels_of(4_000_000, 50_000_000);
    assert_eq!(kept_memory(&first, &levels_of(4_100_000, 0)), None);
    let note = kept_memory(&first, &levels_of(44_000_000, 0)).unwrap();
    assert!(note.contains("38.1MiB") && note.contains("too flat"), "{note}");
}

#[test]
fn who_kept_it_from_its_levels() {
    let (mut result, _) = closed_run();
    result.connections.no_ports = 0;
    let judged = |result: &RunResult, open: u64, failed: u64, closed_by_server: u64| {
        let level =
            LevelResult { connections: 10, open, failed, closed_by_server, ..Default::default() };
        verdict(result, &[level])
    };
    assert_eq!(judged(&result, 10, 0, 0).limited_by, LimitedBy::None);
    assert_eq!(judged(&result, 9, 1, 0).limited_by, LimitedBy::Server);
    assert_eq!(judged(&result, 9, 0, 1).sure, Sure::High);
    assert_eq!(judged(&result, 9, 0, 0).limited_by, LimitedBy::Unknown);
    result.connections.no_ports = 1;
    assert_eq!(judged(&result, 9, 1, 0).limited_by, LimitedBy::Ports);
}

#[test]
fn the_probe_that_failed_first_is_found() {
    let mut held = conclude(levels(&[0, 10]), &[], AROUND).levels;
    assert!(first_failed(&held).is_none());
    let probe = |first_failed_s| Some(ProbeResult { first_failed_s, ..ProbeResult::default() });
    (held[0].probe, held[1].probe) = (probe(None), probe(Some(12.5)));
    let (level, at_s) = first_failed(&held).unwrap();
    assert_eq!((level.connections, at_s), (10, 12.5));
}
