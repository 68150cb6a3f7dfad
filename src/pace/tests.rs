use proptest::prelude::*;

use super::*;
use crate::clock::{Nanos, SECOND};
use crate::plan::{Profile, Ratio, Segment};
use crate::units::{HOUR, parse_rate};

const RATES: [&str; 12] =
    ["1/h", "1/m", "7/m", "0.3", "1", "3", "997", "10k", "12345.678", "333333", "999983", "1M"];
const THREADS: [usize; 6] = [1, 2, 3, 7, 64, 1000];

fn profile(text: &str) -> Profile {
    Profile::parse_rate(text).unwrap()
}

/// All that is left, in order.
fn walk(mut arrivals: Arrivals) -> Vec<Nanos> {
    let mut times = Vec::new();
    while let Some(at_ns) = arrivals.peek() {
        times.push(at_ns);
        arrivals.advance();
    }
    times
}

/// What a constant rate's arrival `k` is due at, from its definition.
fn constant_due(rate: Ratio, k: u64) -> Nanos {
    let units = u128::from(k) * u128::from(rate.den) * u128::from(SECOND);
    units.div_ceil(rate.num.into()) as Nanos
}

/// Kolmogorov-Smirnov: the largest distance between the distribution of `samples` and the uniform
/// one, times the root of their number. Over 1.63 in one of a hundred cases.
fn distance_from_uniform(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let n = samples.len() as f64;
    let distances = samples.iter().enumerate().map(|(i, x)| {
        let (below, above) = (i as f64 / n, (i + 1) as f64 / n);
        (x - below).abs().max((above - x).abs())
    });
    distances.fold(0.0, f64::max) * n.sqrt()
}

#[test]
fn an_hour_of_any_rate_is_exact() {
    for text in RATES {
        let (rate, profile) = (parse_rate(text).unwrap(), profile(text));
        let schedule = Schedule::new(&profile);
        // What is due before the hour is over: the integral rounded up.
        let units = u128::from(rate.num) * 3600;
        let count = units.div_ceil(rate.den.into()) as u64;
        assert_eq!(schedule.count_before(HOUR), count, "{text}");
        assert!(due(&profile, count - 1).unwrap() < HOUR, "{text}");
        assert!(due(&profile, count).unwrap() >= HOUR, "{text}");
        for k in (0..1000).map(|i| i * (count / 1000).max(1)).chain(count.saturating_sub(50)..count)
        {
            assert_eq!(due(&profile, k), Some(constant_due(rate, k)), "{text} {k}");
        }
    }
}

#[test]
fn a_thread_is_exact_until_the_end_of_the_hour() {
    for text in RATES {
        let (rate, profile) = (parse_rate(text).unwrap(), profile(text));
        let count = Schedule::new(&profile).count_before(HOUR);
        // So many threads that one of them walks through the hour in some thousand steps.
        let threads = (count / 3000).max(7) as usize;
        for thread in [0, 1, threads / 2, threads - 1] {
            let times = walk(Arrivals::even(&profile, thread, threads, None, Some(HOUR)));
            let numbers = (thread as u64..count).step_by(threads);
            let expected: Vec<Nanos> = numbers.map(|k| constant_due(rate, k)).collect();
            assert_eq!(times, expected, "{text}, thread {thread} of {threads}");
        }
    }
}

#[test]
fn threads_together_are_the_one_schedule() {
    for text in RATES {
        let profile = profile(text);
        for threads in THREADS {
            for limit in [1, threads as u64, 2500] {
                let mut times: Vec<Nanos> = (0..threads)
                    .flat_map(|i| walk(Arrivals::even(&profile, i, threads, Some(limit), None)))
                    .collect();
                times.sort_unstable();
                let expected: Vec<Nanos> = (0..limit).map(|k| due(&profile, k).unwrap()).collect();
                assert_eq!(times, expected, "{text} over {threads}, {limit} in all");
            }
        }
    }
}

#[test]
fn ten_seconds_of_10k_are_100_000() {
    let count: usize = (0..3)
        .map(|i| walk(Arrivals::even(&profile("10k"), i, 3, None, Some(10 * SECOND))).len())
        .sum();
    assert_eq!(count, 100_000);
    let ended: usize =
        (0..3).map(|i| walk(Arrivals::even(&profile("10k@10s"), i, 3, None, None)).len()).sum();
    assert_eq!(ended, 100_000);
}

#[test]
fn ramps_integrate_to_the_right_count() {
    for (text, count) in [
        ("0..100@10s", 500),
        ("100..0@10s", 500),
        ("100..5k@2m", 306_000),
        ("0..1M@1h", 1_800_000_000),
        ("1M..0@1h", 1_800_000_000),
        ("0..60/m@1m,60/m..0@1m", 60),
        // Halves of an arrival carried over: 0.5 + 0.5 + 0.5, and its first at time 0.
        ("0..1@1s,1..0@1s,0..1@1s", 2),
        ("0@5s,10@1s", 10),
        ("10@1s,0@5s,10@1s", 20),
    ] {
        let profile = profile(text);
        let end_ns = profile.duration_ns().unwrap();
        let schedule = Schedule::new(&profile);
        assert_eq!(schedule.count_before(end_ns), count, "{text}");
        assert_eq!(schedule.count_before(Nanos::MAX), count, "{text}");
        assert!(due(&profile, count - 1).unwrap() < end_ns, "{text}");
        assert_eq!(due(&profile, count), None, "{text}");
    }
}

#[test]
fn a_ramps_arrivals_are_due_in_the_very_nanosecond() {
    for (from, to, seconds) in
        [(0_i128, 100, 10), (100, 0, 10), (1, 2, 3600), (0, 1_000_000, 3600), (1_000_000, 0, 3600)]
    {
        let profile = profile(&format!("{from}..{to}@{seconds}s"));
        let duration_ns = seconds * i128::from(SECOND);
        let reached = |t: Nanos, k: u64| {
            let t = i128::from(t);
            2 * from * duration_ns * t + (to - from) * t * t
                >= i128::from(k) * 2 * duration_ns * i128::from(SECOND)
        };
        let count = ((from + to) * seconds / 2) as u64;
        let step = (count / 2000).max(1) as usize;
        for k in (1..count).step_by(step).chain(count - 10..count) {
            let at_ns = due(&profile, k).unwrap();
            assert!(reached(at_ns, k) && !reached(at_ns - 1, k), "{from}..{to}, {k} at {at_ns}");
        }
    }
}

#[test]
fn the_first_arrivals() {
    // At the square roots of a ramp from 0.
    let times: Vec<Nanos> = (0..5).map(|k| due(&profile("0..2@1s,2@9s"), k).unwrap()).collect();
    assert_eq!(times, [0, SECOND, 3 * SECOND / 2, 2 * SECOND, 5 * SECOND / 2]);
    assert_eq!(due(&profile("0@5s,1@10s"), 1), Some(6 * SECOND));
    // An endless profile ends with time itself.
    assert_eq!(due(&profile("1/h"), 5_124_095), Some(5_124_095 * HOUR));
    assert_eq!(due(&profile("1/h"), 5_124_096), None);
    assert_eq!(due(&profile("0.000001/h"), u64::MAX), None);
    assert_eq!(due(&profile("1G"), u64::MAX - 1), Some(u64::MAX - 1));
}

#[test]
fn nothing_is_taken_after_the_last() {
    for limit in [0, 1, 5] {
        let mut even = Arrivals::even(&profile("100"), 0, 1, Some(limit), None);
        let mut poisson = Arrivals::poisson(&profile("100"), 0, 1, Some(limit), None, 1);
        for arrivals in [&mut even, &mut poisson] {
            assert_eq!(arrivals.remaining_before(Nanos::MAX), limit);
            for _ in 0..limit + 3 {
                arrivals.advance();
            }
            assert_eq!(arrivals.peek(), None);
            assert_eq!(arrivals.remaining_before(Nanos::MAX), 0);
        }
    }
}

#[test]
fn poisson_gaps_are_exponential() {
    for (threads, seed) in [(1, 1), (1, 2), (3, 3), (16, 4)] {
        for thread in [0, threads - 1] {
            let arrivals =
                Arrivals::poisson(&profile("1k"), thread, threads, Some(80_000), None, seed);
            let times = walk(arrivals);
            let rate = 1000.0 / threads as f64;
            let gaps = std::iter::once(times[0]).chain(times.windows(2).map(|w| w[1] - w[0]));
            let uniform = gaps.map(|gap| 1.0 - (-(gap as f64) * rate / 1e9).exp()).collect();
            let distance = distance_from_uniform(uniform);
            assert!(distance < 1.63, "{distance}, thread {thread} of {threads}");
        }
    }
}

#[test]
fn poisson_threads_together_are_poisson() {
    let mut times: Vec<Nanos> = (0..8)
        .flat_map(|i| {
            walk(Arrivals::poisson(&profile("10k"), i, 8, None, Some(5 * SECOND), 289_119))
        })
        .collect();
    times.sort_unstable();
    assert!(times.len().abs_diff(50_000) < 5 * 224, "five deviations: {}", times.len());
    let gaps = times.windows(2).map(|w| w[1] - w[0]);
    let distance =
        distance_from_uniform(gaps.map(|gap| 1.0 - (-(gap as f64) / 1e5).exp()).collect());
    assert!(distance < 1.63, "{distance}");
}

#[test]
fn poisson_on_a_ramp_is_exponential_in_rescaled_time() {
    let text = "0..2k@10s,2k@5s,2k..100@10s";
    // Arrivals expected by then, in floats and by itself.
    let expected = |t: Nanos| {
        let t = t as f64 / 1e9;
        match t {
            t if t < 10.0 => 100.0 * t * t,
            t if t < 15.0 => 10_000.0 + 2000.0 * (t - 10.0),
            _ => 20_000.0 + 2000.0 * (t - 15.0) - 95.0 * (t - 15.0).powi(2),
        }
    };
    let times = walk(Arrivals::poisson(&profile(text), 0, 1, None, None, 20));
    assert!(times.len().abs_diff(30_500) < 5 * 175, "five deviations: {}", times.len());
    let gaps = times.windows(2).map(|w| expected(w[1]) - expected(w[0]));
    let distance = distance_from_uniform(gaps.map(|gap| 1.0 - (-gap).exp()).collect());
    assert!(distance < 1.63, "{distance}");
    // The test can tell: without rescaling the gaps are not exponential.
    let gaps = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e9 * 30_500.0 / 25.0);
    assert!(distance_from_uniform(gaps.map(|gap| 1.0 - (-gap).exp()).collect()) > 5.0);
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let times = |seed, thread| {
        walk(Arrivals::poisson(&profile("0..1k@1s,1k@1s"), thread, 4, Some(2000), None, seed))
    };
    assert_eq!(times(7, 0), times(7, 0));
    assert_ne!(times(7, 0), times(8, 0));
    assert_ne!(times(7, 0), times(7, 1));
}

#[test]
fn a_poisson_limit_is_split_exactly() {
    for (limit, threads) in [(0, 3), (1, 3), (10, 3), (11, 4), (100, 64)] {
        let count: usize = (0..threads)
            .map(|i| {
                walk(Arrivals::poisson(&profile("10"), i, threads, Some(limit), None, 5)).len()
            })
            .sum();
        assert_eq!(count as u64, limit);
    }
}

#[test]
fn levels() {
    let places = |text| Level::new(&Profile::parse_count(text).unwrap());
    let constant = places("50");
    assert_eq!((constant.at(0), constant.at(HOUR), constant.next_change(0)), (50, 50, None));

    let ramp = places("0..1200@300s,1200@1m,1200..0@10s");
    let step_ns = SECOND / 4;
    assert_eq!(ramp.at(0), 0);
    assert_eq!(ramp.next_change(0), Some(step_ns / 2), "nearest");
    assert_eq!(ramp.at(step_ns / 2 - 1), 0);
    assert_eq!(ramp.at(step_ns / 2), 1);
    assert_eq!(ramp.at(300 * SECOND - 1), 1200, "before it ends");
    assert_eq!(ramp.at(330 * SECOND), 1200);
    assert_eq!(ramp.at(370 * SECOND - 1), 0);
    assert_eq!(ramp.at(HOUR), 0);
    assert_eq!(ramp.next_change(370 * SECOND), None);
    let shares: Vec<u32> = (0..7).map(|i| ramp.share(330 * SECOND, i, 7)).collect();
    assert_eq!(shares, [172, 172, 172, 171, 171, 171, 171]);

    let steps = places("10@1s,20@1s,20@1s,5@1s");
    assert_eq!(steps.next_change(0), Some(SECOND));
    assert_eq!(steps.next_change(SECOND), Some(3 * SECOND));
    assert_eq!(steps.next_change(3 * SECOND), None);
    assert_eq!((steps.at(SECOND), steps.at(10 * SECOND)), (20, 5));
}

/// Any profile of some segments, in thousandths.
fn any_profile(most: u64) -> impl Strategy<Value = Profile> {
    let value = move || prop_oneof![Just(0), 0..=most];
    let segment = (value(), value(), any::<bool>(), 1..20_000_000_000_u64);
    proptest::collection::vec(segment, 1..5).prop_map(|parts| {
        let segments = parts.into_iter().map(|(from, to, ramp, duration_ns)| Segment {
            from: Ratio::new(from, 1000),
            to: Ratio::new(if ramp { to } else { from }, 1000),
            duration_ns: Some(duration_ns),
        });
        Profile { segments: segments.collect() }
    })
}

proptest! {
    #[test]
    fn a_thread_takes_its_own_of_the_schedule(
        profile in any_profile(60_000),
        threads in 1..12_usize,
        thread in 0..12_usize,
        end_ns in proptest::option::of(0..40 * SECOND),
        cut_ns in 0..80 * SECOND,
    ) {
        let thread = thread % threads;
        let schedule = Schedule::new(&profile);
        let times = walk(Arrivals::even(&profile, thread, threads, None, end_ns));
        let numbers = (thread as u64..).step_by(threads);
        let expected: Vec<Nanos> = numbers
            .map_while(|k| schedule.reach(u128::from(k) * schedule.unit()))
            .take_while(|&at_ns| end_ns.is_none_or(|end_ns| at_ns < end_ns))
            .collect();
        prop_assert_eq!(&times, &expected);
        prop_assert!(times.is_sorted());

        // What remains, from wherever it stands.
        let mut arrivals = Arrivals::even(&profile, thread, threads, Some(500), end_ns);
        let mut times = walk(arrivals.clone());
        while !times.is_empty() {
            let before = times.iter().filter(|&&at_ns| at_ns < cut_ns).count();
            prop_assert_eq!(arrivals.remaining_before(cut_ns), before as u64);
            times.remove(0);
            arrivals.advance();
        }
        prop_assert_eq!(arrivals.remaining_before(cut_ns), 0);
    }

    #[test]
    fn count_and_due_are_inverse(profile in any_profile(1_000_000_000), share in 0.0..1.0_f64) {
        let schedule = Schedule::new(&profile);
        let end_ns = profile.duration_ns().unwrap();
        let count = schedule.count_before(end_ns);
        let k = (count as f64 * share) as u64;
        if k < count {
            let at_ns = due(&profile, k).unwrap();
            prop_assert!(at_ns < end_ns);
            prop_assert!(schedule.count_before(at_ns) <= k);
            prop_assert!(schedule.count_before(at_ns + 1) > k);
        }
        prop_assert_eq!(due(&profile, count), None);
    }

    #[test]
    fn a_split_changes_nothing(
        from in 0..1000_u64,
        to in 1..1000_u64,
        first in 1..10_u64,
        second in 1..10_u64,
        part in 0.0..1.0_f64,
    ) {
        // The middle of a line is on the line.
        let seconds = first + second;
        let middle = Ratio::new(from * second + to * first, seconds);
        let piece = |from, to, seconds| Segment { from, to, duration_ns: Some(seconds * SECOND) };
        let (from, to) = (Ratio::whole(from), Ratio::whole(to));
        let whole = Profile { segments: vec![piece(from, to, seconds)] };
        let split = Profile { segments: vec![piece(from, middle, first), piece(middle, to, second)] };
        let count = Schedule::new(&whole).count_before(Nanos::MAX);
        prop_assert_eq!(Schedule::new(&split).count_before(Nanos::MAX), count);
        let k = (count as f64 * part) as u64;
        prop_assert_eq!(due(&whole, k), due(&split, k));
    }

    #[test]
    fn poisson_is_in_order_and_counted(
        profile in any_profile(60_000),
        seed: u64,
        cut_ns in 0..80 * SECOND,
    ) {
        let arrivals = Arrivals::poisson(&profile, 1, 3, Some(3000), Some(60 * SECOND), seed);
        let times = walk(arrivals.clone());
        prop_assert!(times.is_sorted());
        prop_assert!(times.len() <= 1000);
        let before = times.iter().filter(|&&at_ns| at_ns < cut_ns).count();
        prop_assert_eq!(arrivals.remaining_before(cut_ns), before as u64);
    }

    #[test]
    fn a_level_changes_when_it_says(profile in any_profile(40_000), t in 0..80 * SECOND) {
        let level = Level::new(&profile);
        match level.next_change(t) {
            Some(change_ns) => {
                prop_assert!(change_ns > t);
                prop_assert_ne!(level.at(change_ns), level.at(t));
                prop_assert_eq!(level.at(change_ns - 1), level.at(t));
                prop_assert_eq!(level.at(t + (change_ns - t) / 2), level.at(t));
            }
            None => {
                for later in [1, SECOND, 10 * SECOND, 100 * SECOND] {
                    prop_assert_eq!(level.at(t + later), level.at(t));
                }
            }
        }
        for threads in [1, 3, 64] {
            let sum: u64 = (0..threads).map(|i| u64::from(level.share(t, i, threads))).sum();
            prop_assert_eq!(sum, level.at(t));
        }
    }
}
