//! Figures per page.

use super::distribution::Distribution;
use super::recorder::{Encoding, Exchange};
use crate::clock::{MICROSECOND, Nanos};

/// Up to so many pages a page's percentiles have two significant digits; above, one.
const FINE_PAGES: usize = 32;

/// Up to so many pages every histogram is made at the start; above, at a page's first response, so
/// that a long list costs memory only for what is asked for.
const EAGER_PAGES: usize = 1024;

/// What is known of one page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageStats {
    /// Complete responses.
    pub count: u64,
    /// Failures.
    pub failed: u64,
    /// Responses of status 4xx and 5xx.
    pub http_errors: u64,
    /// Bytes of body after de-chunking.
    pub bytes: u64,
    /// How its last response was encoded.
    pub encoding: Encoding,
    /// Response times; `None` where the totals are this page's, or nothing came.
    pub response: Option<Box<Distribution<u32>>>,
}

/// All pages of one worker. A single page costs nothing: its figures are the totals.
pub(super) struct Pages {
    pages: Vec<PageStats>,
    digits: u8,
}

impl PageStats {
    /// Adds another worker's figures of the same page.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.failed += other.failed;
        self.http_errors += other.http_errors;
        self.bytes += other.bytes;
        if other.count > 0 {
            self.encoding = other.encoding;
        }
        match (&mut self.response, other.response) {
            (Some(mine), Some(others)) => mine.merge(&others),
            (mine @ None, others) => *mine = others,
            (Some(_), None) => {}
        }
    }
}

impl Pages {
    pub(super) fn new(count: usize) -> Self {
        let digits = if count <= FINE_PAGES { 2 } else { 1 };
        if count <= 1 {
            return Self { pages: Vec::new(), digits };
        }
        let eager = count <= EAGER_PAGES;
        let page = |_| PageStats {
            count: 0,
            failed: 0,
            http_errors: 0,
            bytes: 0,
            encoding: Encoding::Identity,
            response: eager.then(|| histogram(digits)),
        };
        Self { pages: (0..count).map(page).collect(), digits }
    }

    #[inline]
    pub(super) fn completed(&mut self, exchange: &Exchange, response_ns: Nanos) {
        let digits = self.digits;
        let Some(page) = self.pages.get_mut(exchange.page as usize) else { return };
        page.count += 1;
        page.http_errors += u64::from(exchange.status >= 400);
        page.bytes += exchange.body;
        page.encoding = exchange.encoding;
        page.response.get_or_insert_with(|| histogram(digits)).record(response_ns);
    }

    /// A failure; `response_ns` where it is in the latencies.
    pub(super) fn failed(&mut self, page: u32, response_ns: Option<Nanos>) {
        let digits = self.digits;
        let Some(page) = self.pages.get_mut(page as usize) else { return };
        page.failed += 1;
        if let Some(ns) = response_ns {
            page.response.get_or_insert_with(|| histogram(digits)).record(ns);
        }
    }

    /// The pages; `single` where there is but one.
    pub(super) fn finish(self, single: PageStats) -> Vec<PageStats> {
        if self.pages.is_empty() { vec![single] } else { self.pages }
    }
}

fn histogram(digits: u8) -> Box<Distribution<u32>> {
    Box::new(Distribution::from_unit(MICROSECOND, digits))
}
