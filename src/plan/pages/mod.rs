//! The pages of a load and how the next one is chosen.

mod list;
mod picker;
mod url;

pub use list::{ListError, parse_list};
pub use picker::Picker;
pub use url::{Credentials, ParsedUrl, Scheme, UrlError, parse_url};

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The request's method.
    pub method: String,
    /// The request target: path and query, as sent.
    pub target: String,
    /// As shown in results (a password in it removed).
    pub url: String,
    /// How often, against the other pages; at least 1.
    pub weight: u32,
}

/// How the next page is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// At random, by weight.
    #[default]
    Random,
    /// One after the other, by weight, from the start again.
    InOrder,
}
