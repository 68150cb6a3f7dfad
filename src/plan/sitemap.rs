//! Sitemaps (<https://www.sitemaps.org/protocol.html>): the pages of a site, as XML or one URL a
//! line, plain or packed with gzip. Bytes in, URLs out; fetching is the caller's.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use super::pages::{ParsedUrl, parse_url};

/// The largest sitemap that is read, unpacked, in bytes: twice what the protocol allows.
pub const MAX_BYTES: u64 = 100 << 20;
/// How deep index files may name index files. The protocol forbids it, sites do it.
pub const MAX_DEPTH: usize = 3;
/// The most files that one sitemap may lead to.
pub const MAX_FILES: usize = 1000;

/// What a sitemap file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sitemap {
    /// The URLs of pages.
    Urls(Vec<String>),
    /// The URLs of further sitemaps.
    Index(Vec<String>),
}

impl Sitemap {
    /// Reads one file: XML with `urlset` or `sitemapindex` as its root, or a URL a line.
    ///
    /// # Errors
    ///
    /// See [`Problem`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let bytes = unpack(bytes)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Problem::NotUtf8)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
        match text.as_bytes() {
            [] => Err(Problem::Empty),
            [b'<', ..] => parse_xml(text),
            _ => parse_lines(text),
        }
    }
}

/// Reads a sitemap and all that it leads to: `read` is given `source`, which is a URL or a path, and
/// then the URLs that index files name. Of those only path and query are kept, on the origin of
/// `source`, or on `origin` where `source` is a path: no host is loaded because a file names it. They carry no
/// credentials, also where `source` does.
/// Each URL of a page comes once, as it is written.
///
/// # Errors
///
/// The first file that cannot be read, by its name; too many files or levels; more than `limit`
/// pages, or none.
pub fn load(
    source: &str,
    origin: &ParsedUrl,
    read: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    limit: usize,
) -> Result<Vec<String>, SitemapError> {
    let error = |source: &str, problem| SitemapError { source: source.to_owned(), problem };
    let at_source = parse_url(source).ok();
    let shown_source = at_source.as_ref().map_or_else(|| source.to_owned(), ToString::to_string);
    let origin = at_source.as_ref().unwrap_or(origin);

    let mut pages = Vec::new();
    let mut seen_pages = HashSet::new();
    let mut seen_files = HashSet::from([shown_source.clone()]);
    let mut waiting = VecDeque::from([(shown_source.clone(), 0)]);
    while let Some((file, depth)) = waiting.pop_front() {
        // Only here may there be credentials in it.
        let bytes = read(if file == shown_source { source } else { &file });
        let bytes = bytes.map_err(|told| error(&file, Problem::Unread(told)))?;
        match Sitemap::parse(&bytes).map_err(|problem| error(&file, problem))? {
            Sitemap::Urls(urls) => {
                pages.extend(urls.into_iter().filter(|url| seen_pages.insert(url.clone())));
                if pages.len() > limit {
                    return Err(error(&file, Problem::TooManyPages(limit)));
                }
            }
            Sitemap::Index(_) if depth == MAX_DEPTH => return Err(error(&file, Problem::TooDeep)),
            Sitemap::Index(files) => {
                for location in files {
                    let url = origin
                        .at(&location)
                        .map_err(|told| error(&file, Problem::Location(told.to_string())))?;
                    let next = url.to_string();
                    if seen_files.insert(next.clone()) {
                        waiting.push_back((next, depth + 1));
                    }
                }
                if seen_files.len() > MAX_FILES {
                    return Err(error(&file, Problem::TooManyFiles));
                }
            }
        }
    }
    if pages.is_empty() { Err(error(&shown_source, Problem::NoPages)) } else { Ok(pages) }
}

/// A sitemap that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitemapError {
    /// The file, without credentials.
    source: String,
    problem: Problem,
}

/// What is wrong with a sitemap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is nothing in it.
    Empty,
    /// It cannot be unpacked; what gzip says.
    Gzip(String),
    /// More than [`MAX_BYTES`], unpacked.
    TooLarge,
    /// It is not UTF-8, which sitemaps must be.
    NotUtf8,
    /// It is a web page.
    Html,
    /// XML, but of another kind; its root.
    OtherRoot(String),
    /// No XML that can be read; what and at which byte.
    Xml(String, u64),
    /// An entity that XML does not have.
    Entity(String),
    /// Neither XML nor URLs; the line and what it says.
    NotAUrl(usize, String),
    /// It could not be fetched or opened; why.
    Unread(String),
    /// What an index file names is no URL.
    Location(String),
    /// Index files that name index files, deeper than [`MAX_DEPTH`].
    TooDeep,
    /// More than [`MAX_FILES`].
    TooManyFiles,
    /// More pages than this limit.
    TooManyPages(usize),
    /// There is no page in it.
    NoPages,
}

impl fmt::Display for SitemapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sitemap {}: {}", self.source.escape_debug(), self.problem)
    }
}

impl std::error::Error for SitemapError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Gzip(told) => write!(f, "it cannot be unpacked ({told}); is it whole?"),
            Self::TooLarge => write!(f, "it is over {} MiB unpacked; split it", MAX_BYTES >> 20),
            Self::NotUtf8 => f.write_str("it is not UTF-8, which a sitemap must be"),
            Self::Html => f.write_str(
                "it is an HTML page, not a sitemap; \
                 look for the right address in the site's robots.txt",
            ),
            Self::OtherRoot(root) => write!(
                f,
                "its root is <{}>, where a sitemap has <urlset> or <sitemapindex>",
                root.escape_debug()
            ),
            Self::Xml(told, at) => write!(f, "it is not well-formed XML: {told}, at byte {at}"),
            Self::Entity(name) => write!(
                f,
                "the entity &{}; is not one of XML's; write an & as &amp;",
                name.escape_debug()
            ),
            Self::NotAUrl(number, line) => write!(
                f,
                "line {number} (\"{}\") is no URL; \
                 a sitemap is XML with <urlset>, or has one URL a line",
                line.escape_debug()
            ),
            Self::Unread(told) => f.write_str(told),
            Self::Location(told) => write!(f, "it names a sitemap that is none: {told}"),
            Self::TooDeep => {
                write!(f, "its index files are nested over {MAX_DEPTH} deep; name an inner one")
            }
            Self::TooManyFiles => {
                write!(f, "its index leads to over {MAX_FILES} files; name one of them instead")
            }
            Self::TooManyPages(limit) => {
                write!(
                    f,
                    "it has over {limit} pages; name a smaller one, or list pages with --urls"
                )
            }
            Self::NoPages => f.write_str("there is no page in it: no <loc> within a <url>"),
        }
    }
}

/// Unpacks what begins like gzip, whatever its name says: servers unpack some and not others.
fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Problem> {
    const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
    let unpacked = if bytes.starts_with(GZIP_MAGIC) {
        let mut unpacked = Vec::new();
        let mut reader = MultiGzDecoder::new(bytes).take(MAX_BYTES + 1);
        reader.read_to_end(&mut unpacked).map_err(|error| Problem::Gzip(error.to_string()))?;
        Cow::Owned(unpacked)
    } else {
        Cow::Borrowed(bytes)
    };
    if unpacked.len() as u64 > MAX_BYTES { Err(Problem::TooLarge) } else { Ok(unpacked) }
}

/// A URL a line.
fn parse_lines(text: &str) -> Result<Sitemap, Problem> {
    let mut urls = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if parse_url(line).is_err() {
            return Err(Problem::NotAUrl(index + 1, line.chars().take(60).collect()));
        }
        urls.push(line.to_owned());
    }
    Ok(Sitemap::Urls(urls))
}

/// Every `<loc>` of every entry. Prefixes do not matter, but the place does: an image within an
/// entry has a `<loc>` of its own, one level further in.
fn parse_xml(text: &str) -> Result<Sitemap, Problem> {
    const LOCATION_DEPTH: usize = 3;
    let mut reader = Reader::from_str(text);
    let mut root = None;
    let mut entry = false;
    let mut depth = 0;
    // What the open `<loc>` says so far.
    let mut location: Option<String> = None;
    let mut locations = Vec::new();
    loop {
        let event = reader
            .read_event()
            .map_err(|error| Problem::Xml(error.to_string(), reader.error_position()))?;
        match event {
            Event::Start(tag) => {
                depth += 1;
                let name = tag.local_name();
                match depth {
                    1 if root.is_none() => root = Some(Root::of(name.as_ref())?),
                    2 => entry = root.is_some_and(|root| root.entry() == name.as_ref()),
                    LOCATION_DEPTH if entry && name.as_ref() == "loc" => {
                        location = Some(String::new());
                    }
                    _ => {}
                }
            }
            Event::End(_) => {
                if depth == LOCATION_DEPTH
                    && let Some(text) = location.take()
                    && !text.trim().is_empty()
                {
                    locations.push(text.trim().to_owned());
                }
                depth -= 1;
            }
            Event::Empty(tag) if root.is_none() => {
                root = Some(Root::of(tag.local_name().as_ref())?);
            }
            Event::Text(text) => {
                if let Some(location) = &mut location {
                    location.push_str(&text);
                }
            }
            Event::CData(text) => {
                if let Some(location) = &mut location {
                    location.push_str(&text);
                }
            }
            Event::GeneralRef(reference) => {
                if let Some(location) = &mut location {
                    location.push(resolve(&reference)?);
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let end = text.len() as u64;
    match root {
        _ if depth > 0 => Err(Problem::Xml("it ends before its last tag is closed".into(), end)),
        None => Err(Problem::Xml("there is no tag in it".into(), end)),
        Some(Root::UrlSet) => Ok(Sitemap::Urls(locations)),
        Some(Root::Index) => Ok(Sitemap::Index(locations)),
    }
}

/// The kinds of a sitemap.
#[derive(Clone, Copy)]
enum Root {
    UrlSet,
    Index,
}

impl Root {
    fn of(name: &str) -> Result<Self, Problem> {
        match name {
            "urlset" => Ok(Self::UrlSet),
            "sitemapindex" => Ok(Self::Index),
            _ if name.eq_ignore_ascii_case("html") => Err(Problem::Html),
            _ => Err(Problem::OtherRoot(name.chars().take(60).collect())),
        }
    }

    /// What an entry is called.
    const fn entry(self) -> &'static str {
        match self {
            Self::UrlSet => "url",
            Self::Index => "sitemap",
        }
    }
}

/// The character that `&name;` stands for.
fn resolve(reference: &BytesRef<'_>) -> Result<char, Problem> {
    let name: &str = reference;
    let character = match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => reference.resolve_char_ref().ok().flatten(),
    };
    character.ok_or_else(|| Problem::Entity(name.chars().take(60).collect()))
}

#[cfg(test)]
mod tests;
