//! What a connection costs: a line through the levels of a hold, and how many would fit.

use crate::stats::result::{Capacity, PerConnection};
use crate::units::{format_bytes, format_count};

/// Of the memory that a machine has to spare, one part in so many is left alone: a server that has
/// used up all of it is down.
const RESERVE_PART: u64 = 20;
/// A slope is told from nothing where it is more than so many of its standard errors.
const STANDARD_ERRORS: f64 = 2.0;

/// A straight line through points, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// How much y grows with each x.
    pub slope: f64,
    /// y at x = 0.
    pub intercept: f64,
    /// Standard error of the slope; `None` with two points, which leave nothing to err by.
    pub slope_stderr: Option<f64>,
}

impl Line {
    /// Fits it to points (x, y); `None` with fewer than two different x.
    ///
    /// With means X and Y over n points, the slope is b = Σ(x-X)(y-Y) / Σ(x-X)², the intercept
    /// Y - bX, and the standard error of b is √(s² / Σ(x-X)²), s² = Σ(y - intercept - bx)² / (n-2)
    /// (Draper and Smith, Applied Regression Analysis, sections 1.2 to 1.4).
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let n = points.len() as f64;
        let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
        let (mean_x, mean_y) = (sum_x / n, sum_y / n);
        let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        // Levels are whole numbers of connections: less than this is one level measured twice.
        if points.len() < 2 || spread < 0.5 {
            return None;
        }
        let common: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let slope = common / spread;
        let intercept = mean_y - slope * mean_x;
        let residuals: f64 = points.iter().map(|(x, y)| (y - intercept - slope * x).powi(2)).sum();
        let slope_stderr = (points.len() > 2).then(|| (residuals / (n - 2.0) / spread).sqrt());
        Some(Self { slope, intercept, slope_stderr })
    }
}

/// One level, as far as it is a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Connections that were open.
    pub open: f64,
    /// Bytes of the server's processes.
    pub user_bytes: Option<u64>,
    /// Bytes of its kernel.
    pub kernel_bytes: Option<u64>,
}

/// What a connection costs, by these levels.
#[must_use]
pub fn per_connection(points: &[Point]) -> PerConnection {
    let line = |bytes: fn(&Point) -> Option<u64>| {
        let known: Vec<(f64, f64)> =
            points.iter().filter_map(|p| Some((p.open, bytes(p)? as f64))).collect();
        Line::fit(&known)
    };
    let (user, kernel) = (line(|p| p.user_bytes), line(|p| p.kernel_bytes));
    PerConnection {
        user_bytes: user.map(|line| line.slope),
        kernel_bytes: kernel.map(|line| line.slope),
        stderr: user.and_then(|line| line.slope_stderr),
        kernel_stderr: kernel.and_then(|line| line.slope_stderr),
        base_bytes: user.map(|line| line.intercept),
        levels: points.iter().filter(|p| p.user_bytes.is_some()).count() as u64,
    }
}

/// How many connections `mem_available` bytes would hold, a twentieth of them left alone; `None`
/// where a connection's memory cannot be told from nothing.
#[must_use]
pub fn capacity(mem_available: u64, cost: &PerConnection) -> Option<Capacity> {
    let user = cost.user_bytes?.max(0.0);
    // A machine whose kernel did not tell is judged by what is known.
    let bytes = user + cost.kernel_bytes.unwrap_or(0.0).max(0.0);
    let noise = cost.stderr.unwrap_or(0.0).hypot(cost.kernel_stderr.unwrap_or(0.0));
    if bytes < 1.0 || bytes <= STANDARD_ERRORS * noise {
        return None;
    }
    let reserve = mem_available / RESERVE_PART;
    let connections = ((mem_available - reserve) as f64 / bytes) as u64;
    Some(Capacity { mem_available, reserve, connections })
}

/// Whose memory a server's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This machine's, so that both ends of each connection are in it.
    Ours,
    /// Another machine's, which is watched.
    Theirs,
}

/// What an operator needs to know: how many connections would fit. `targets` are names and
/// capacities; `None` where there is none.
#[must_use]
pub fn sentence(targets: &[(String, Capacity)], whose: Whose) -> Option<String> {
    // What the machine had before the first connection.
    let spare = targets.first()?.1.mem_available;
    let mut fits: Vec<_> = targets.iter().map(|(name, fit)| (fit.connections, name)).collect();
    fits.sort_unstable();
    let fits: Vec<String> = fits
        .into_iter()
        .enumerate()
        .map(|(number, (connections, name))| {
            let noun = if number == 0 { " connections" } else { "" };
            format!("about {}{noun} over {name}", format_count(round_down(connections)))
        })
        .collect();
    let machine = if whose == Whose::Theirs { "the server's machine" } else { "this machine" };
    let ends = match whose {
        Whose::Ours => "; the kernel's part is of both ends, so the server alone has room for more",
        Whose::Theirs => "",
    };
    Some(format!(
        "With the {} that {machine} had free, less a twentieth in reserve: {} (descriptors and \
         ports not counted{ends})",
        format_bytes(spare),
        fits.join(", "),
    ))
}

/// To two significant digits, down: more would be promised than is known.
fn round_down(count: u64) -> u64 {
    let unit = 10_u64.pow(count.checked_ilog10().unwrap_or(0).saturating_sub(1));
    count / unit * unit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(a: f64, b: f64, scale: f64) -> bool {
        (a - b).abs() <= 1e-6 * scale.abs().max(1.0)
    }

    fn point(open: f64, user: u64, kernel: u64) -> Point {
        Point { open, user_bytes: Some(user), kernel_bytes: Some(kernel) }
    }

    #[test]
    fn a_line_worked_out_by_hand() {
        // Means 2 and 3; spread 2; common (-1)(-2) + 0 + 1·2 = 4... residuals -1/3, 2/3, -1/3.
        let line = Line::fit(&[(1.0, 1.0), (2.0, 4.0), (3.0, 5.0)]).unwrap();
        assert!(close(line.slope, 2.0, 1.0) && close(line.intercept, -2.0 / 3.0, 1.0), "{line:?}");
        // s² = (1/9 + 4/9 + 1/9) / 1 = 2/3, over a spread of 2.
        assert!(close(line.slope_stderr.unwrap(), (1.0_f64 / 3.0).sqrt(), 1.0), "{line:?}");
    }

    #[test]
    fn too_few_points_make_no_line() {
        assert_eq!(Line::fit(&[]), None);
        assert_eq!(Line::fit(&[(1.0, 2.0)]), None);
        assert_eq!(Line::fit(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]), None);
        let two = Line::fit(&[(0.0, 10.0), (10.0, 30.0)]).unwrap();
        assert_eq!((two.slope, two.intercept, two.slope_stderr), (2.0, 10.0, None));
    }

    #[test]
    fn user_and_kernel_have_lines_of_their_own() {
        let mut points = vec![point(0.0, 4_000, 100), point(10.0, 4_450, 300)];
        let cost = per_connection(&points);
        assert_eq!((cost.user_bytes, cost.kernel_bytes), (Some(45.0), Some(20.0)));
        assert_eq!((cost.stderr, cost.base_bytes, cost.levels), (None, Some(4_000.0), 2));
        points[1].kernel_bytes = None;
        points.push(point(20.0, 4_900, 500));
        let cost = per_connection(&points);
        assert_eq!((cost.user_bytes, cost.kernel_bytes), (Some(45.0), Some(20.0)));
        assert!(cost.stderr.unwrap() < 1e-6 && cost.kernel_stderr.is_none());
        assert_eq!(per_connection(&[]), PerConnection::default());
    }

    #[test]
    fn what_fits_leaves_a_reserve() {
        let cost = |user, kernel| PerConnection {
            user_bytes: Some(user),
            kernel_bytes: kernel,
            ..PerConnection::default()
        };
        let fit = capacity(20_000, &cost(90.0, Some(10.0))).unwrap();
        assert_eq!(fit, Capacity { mem_available: 20_000, reserve: 1_000, connections: 190 });
        assert_eq!(capacity(20_000, &cost(100.0, None)).unwrap().connections, 190);
        // A slope below 0 is noise, and gives nobody memory.
        assert_eq!(capacity(20_000, &cost(100.0, Some(-50.0))).unwrap().connections, 190);
        assert_eq!(capacity(20_000, &cost(-3.0, None)), None);
        assert_eq!(capacity(20_000, &PerConnection::default()), None);
        let unsure = PerConnection { stderr: Some(60.0), ..cost(100.0, None) };
        assert_eq!(capacity(20_000, &unsure), None);
    }

    #[test]
    fn the_sentence_is_the_operators() {
        let fit =
            |connections| Capacity { mem_available: 812 << 20, reserve: 40 << 20, connections };
        let both = [("HTTP".to_owned(), fit(912_345)), ("HTTPS".to_owned(), fit(18_765))];
        let text = sentence(&both, Whose::Theirs).unwrap();
        assert_eq!(
            text,
            "With the 812MiB that the server's machine had free, less a twentieth in reserve: \
             about 18,000 connections over HTTPS, about 910,000 over HTTP (descriptors and ports \
             not counted)"
        );
        let text = sentence(&both[..1], Whose::Ours).unwrap();
        assert!(text.contains("this machine had") && text.contains("both ends"), "{text}");
        assert_eq!(sentence(&[], Whose::Ours), None);
    }

    #[test]
    fn a_count_is_rounded_down_to_what_is_known() {
        for (count, rounded) in [(0, 0), (7, 7), (99, 99), (999, 990), (18_765, 18_000)] {
            assert_eq!(round_down(count), rounded);
        }
    }

    proptest! {
        #[test]
        fn a_line_is_found_again(
            slope in -1e5..1e5_f64,
            intercept in -1e9..1e9_f64,
            xs in proptest::collection::btree_set(0_u32..1_000_000, 2..12),
        ) {
            let points: Vec<_> =
                xs.iter().map(|&x| (f64::from(x), intercept + slope * f64::from(x))).collect();
            let line = Line::fit(&points).unwrap();
            // The sums hold about 15 digits.
            let scale = intercept.abs() + slope.abs() * 1e6;
            prop_assert!((line.slope - slope).abs() <= 1e-9 * scale.max(1.0), "{line:?}");
            prop_assert_eq!(line.slope_stderr.is_some(), points.len() > 2);
        }

        #[test]
        fn no_other_line_lies_closer(
            points in proptest::collection::vec((0..1_000_u32, 0..1_000_u32), 2..12),
            turn in -0.1..0.1_f64,
            lift in -10.0..10.0_f64,
        ) {
            let points: Vec<_> =
                points.into_iter().map(|(x, y)| (f64::from(x), f64::from(y))).collect();
            let Some(line) = Line::fit(&points) else { return Ok(()) };
            let off = |slope: f64, intercept: f64| -> f64 {
                points.iter().map(|(x, y)| (y - intercept - slope * x).powi(2)).sum()
            };
            let best = off(line.slope, line.intercept);
            prop_assert!(best <= off(line.slope + turn, line.intercept + lift) + 1e-3);
        }

        #[test]
        fn what_fits_is_paid_for(available in 0_u64..1 << 50, bytes in 1.0..1e7_f64) {
            let cost = PerConnection { user_bytes: Some(bytes), ..PerConnection::default() };
            let fit = capacity(available, &cost).unwrap();
            prop_assert!(fit.connections as f64 * bytes <= available as f64);
            prop_assert!(round_down(fit.connections) <= fit.connections);
            prop_assert!(round_down(fit.connections) as f64 >= fit.connections as f64 * 0.9);
        }
    }
}
