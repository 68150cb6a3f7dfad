//! A distribution of times: an HdrHistogram with the exact extremes and sum beside it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};

use crate::clock::{MICROSECOND, Nanos, SECOND};

/// The longest time that a histogram tells apart; longer ones are counted there.
pub const HIGHEST_NS: Nanos = 3600 * SECOND;

/// Significant decimal digits of the totals: a value is known within 0.1 %.
pub const TOTAL_DIGITS: u8 = 3;

/// Times in nanoseconds; extremes and sum exact, what lies between within the histogram's digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution<C: Counter = u64> {
    min_ns: Nanos,
    max_ns: Nanos,
    sum_ns: u128,
    histogram: Histogram<C>,
}

/// A distribution in a result, in microseconds. Without samples all but `count` is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples.
    pub count: u64,
    /// The smallest, exact.
    pub min_us: Option<f64>,
    /// Sum over count, exact.
    pub mean_us: Option<f64>,
    /// Standard deviation, from the histogram.
    pub stddev_us: Option<f64>,
    /// The median.
    pub p50_us: Option<f64>,
    /// 75 % are at most this.
    pub p75_us: Option<f64>,
    /// 90 % are at most this.
    pub p90_us: Option<f64>,
    /// 95 % are at most this.
    pub p95_us: Option<f64>,
    /// 99 % are at most this.
    pub p99_us: Option<f64>,
    /// 99.9 % are at most this.
    pub p99_9_us: Option<f64>,
    /// 99.99 % are at most this.
    pub p99_99_us: Option<f64>,
    /// The largest, exact.
    pub max_us: Option<f64>,
    /// HdrHistogram V2 with DEFLATE, base64, values in nanoseconds.
    pub histogram: Option<String>,
}

impl<C: Counter> Distribution<C> {
    /// An empty one that tells values apart from 1 ns to 1 h.
    ///
    /// # Panics
    /// If `digits` is above 5.
    #[must_use]
    pub fn new(digits: u8) -> Self {
        Self::from_unit(1, digits)
    }

    /// An empty one that tells values apart from `lowest_ns` (at least 1) to 1 h; it is smaller.
    ///
    /// # Panics
    /// If `digits` is above 5.
    #[must_use]
    pub fn from_unit(lowest_ns: Nanos, digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(lowest_ns, HIGHEST_NS, digits)
            .expect("the bounds are apart and the digits at most 5");
        Self { min_ns: Nanos::MAX, max_ns: 0, sum_ns: 0, histogram }
    }

    /// Records one value. Never allocates.
    #[inline]
    pub fn record(&mut self, value_ns: Nanos) {
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns += u128::from(value_ns);
        self.histogram.saturating_record(value_ns);
    }

    /// Records a value that was seen `count` times.
    pub fn record_n(&mut self, value_ns: Nanos, count: C) {
        if count == C::zero() {
            return;
        }
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns += u128::from(value_ns) * u128::from(count.as_u64());
        self.histogram.saturating_record_n(value_ns, count);
    }

    /// Adds another one of the same bounds and digits.
    ///
    /// # Panics
    /// If the other one's bounds exceed this one's.
    pub fn merge(&mut self, other: &Self) {
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
        self.histogram.add(&other.histogram).expect("both have the same bounds");
    }

    /// Empties it, for use again.
    pub fn reset(&mut self) {
        self.histogram.reset();
        (self.min_ns, self.max_ns, self.sum_ns) = (Nanos::MAX, 0, 0);
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// The smallest value, exact.
    #[must_use]
    pub fn min_ns(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// The largest value, exact.
    #[must_use]
    pub fn max_ns(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The mean, exact but for the division.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The value that a share of `quantile` (0 to 1) of all are at most, by nearest rank; never
    /// beyond the extremes.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<Nanos> {
        (!self.is_empty())
            .then(|| self.histogram.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns))
    }

    /// The histogram itself, in nanoseconds.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<C> {
        &self.histogram
    }

    /// As it stands in a result.
    #[must_use]
    pub fn summary(&self) -> Summary {
        if self.is_empty() {
            return Summary::default();
        }
        let quantile = |q| self.quantile_ns(q).map(micros);
        Summary {
            count: self.count(),
            min_us: self.min_ns().map(micros),
            mean_us: self.mean_ns().map(|ns| ns / MICROSECOND as f64),
            stddev_us: Some(self.histogram.stdev() / MICROSECOND as f64),
            p50_us: quantile(0.5),
            p75_us: quantile(0.75),
            p90_us: quantile(0.9),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            p99_9_us: quantile(0.999),
            p99_99_us: quantile(0.9999),
            max_us: self.max_ns().map(micros),
            histogram: Some(encode(&self.histogram)),
        }
    }
}

impl Summary {
    /// The histogram, in nanoseconds; `None` without samples or where its text is not one.
    #[must_use]
    pub fn decode(&self) -> Option<Histogram<u64>> {
        let bytes = STANDARD.decode(self.histogram.as_ref()?).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
    }
}

/// Nanoseconds as microseconds with their fraction.
#[must_use]
pub fn micros(ns: Nanos) -> f64 {
    ns as f64 / MICROSECOND as f64
}

fn encode<C: Counter>(histogram: &Histogram<C>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("writing to memory does not fail and counts are below 2^63");
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The nearest-rank percentile of sorted values.
    fn exact(sorted: &[Nanos], quantile: f64) -> Nanos {
        let rank = (quantile * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[rank - 1]
    }

    fn filled(values: &[Nanos]) -> Distribution {
        let mut distribution = Distribution::new(TOTAL_DIGITS);
        values.iter().for_each(|&v| distribution.record(v));
        distribution
    }

    #[test]
    fn nothing_recorded_is_count_zero_and_nulls() {
        let summary = Distribution::<u64>::new(TOTAL_DIGITS).summary();
        assert_eq!(summary, Summary::default());
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["count"], 0);
        assert!(json.as_object().unwrap().iter().all(|(k, v)| k == "count" || v.is_null()));
        assert_eq!(json.as_object().unwrap().len(), 13);
    }

    #[test]
    fn values_beyond_an_hour_are_counted_and_the_maximum_stays_exact() {
        let distribution = filled(&[5, 2 * HIGHEST_NS + 1]);
        assert_eq!(distribution.count(), 2);
        assert_eq!(distribution.max_ns(), Some(2 * HIGHEST_NS + 1));
        assert!(distribution.quantile_ns(1.0).unwrap() >= HIGHEST_NS);
    }

    #[test]
    fn one_value_is_every_percentile_of_itself() {
        let summary = filled(&[1_234_567]).summary();
        for value in [summary.min_us, summary.p50_us, summary.p99_99_us, summary.max_us] {
            assert_eq!(value, Some(1234.567));
        }
    }

    #[test]
    fn zeros_added_at_once_equal_zeros_added_singly() {
        let mut at_once = filled(&[7]);
        at_once.record_n(0, 3);
        at_once.record_n(9, 0);
        assert_eq!(at_once, filled(&[7, 0, 0, 0]));
        assert_eq!(at_once.quantile_ns(0.5), Some(0));
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_thousandth(
            mut values in prop::collection::vec(
                prop_oneof![1..5_000_u64, 1..HIGHEST_NS, 900_000..1_100_000_u64], 1..400),
        ) {
            let distribution = filled(&values);
            values.sort_unstable();
            for quantile in [0.001, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0] {
                let exact = exact(&values, quantile);
                let got = distribution.quantile_ns(quantile).unwrap();
                prop_assert!(got >= exact && got - exact <= exact / 1000, "{got} for {exact}");
                prop_assert!(got <= *values.last().unwrap());
            }
            prop_assert_eq!(distribution.min_ns(), values.first().copied());
            let sum: u128 = values.iter().map(|&v| u128::from(v)).sum();
            prop_assert_eq!(distribution.mean_ns(), Some(sum as f64 / values.len() as f64));
        }

        #[test]
        fn merging_equals_recording_in_one(
            left in prop::collection::vec(0..HIGHEST_NS * 2, 0..200),
            right in prop::collection::vec(0..HIGHEST_NS * 2, 0..200),
        ) {
            let mut merged = filled(&left);
            merged.merge(&filled(&right));
            prop_assert_eq!(merged, filled(&[left, right].concat()));
        }

        #[test]
        fn the_encoded_histogram_decodes_to_itself(
            values in prop::collection::vec(0..HIGHEST_NS, 1..200),
        ) {
            let distribution = filled(&values);
            let decoded = distribution.summary().decode().unwrap();
            prop_assert_eq!(&decoded, distribution.histogram());
        }
    }
}
