use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

const PLAIN: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- made by hand -->
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url>
    <loc>
      https://blog.example/
    </loc>
    <lastmod>2024-05-01</lastmod>
    <image:image><image:loc>https://blog.example/picture.png</image:loc></image:image>
  </url>
  <url><priority>0.5</priority><loc>https://blog.example/a?b=1&amp;c=&#x32;</loc></url>
  <url><loc><![CDATA[https://blog.example/d?e=1&f=2]]></loc></url>
  <url><loc/></url>
  <url><loc> </loc></url>
</urlset>"#;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn told(text: &str) -> String {
    Sitemap::parse(text.as_bytes()).unwrap_err().to_string()
}

fn index(files: &[&str]) -> String {
    let entries: String =
        files.iter().map(|file| format!("<sitemap><loc>{file}</loc></sitemap>")).collect();
    format!("<sitemapindex>{entries}</sitemapindex>")
}

fn url_set(urls: &[&str]) -> String {
    let entries: String = urls.iter().map(|url| format!("<url><loc>{url}</loc></url>")).collect();
    format!("<urlset>{entries}</urlset>")
}

/// Loads `source` out of these files; also what was read.
fn load_from(
    source: &str,
    files: &[(&str, String)],
    limit: usize,
) -> (Result<Vec<String>, SitemapError>, Vec<String>) {
    let files: HashMap<&str, &String> = files.iter().map(|(name, text)| (*name, text)).collect();
    let mut asked = Vec::new();
    let mut read = |name: &str| {
        asked.push(name.to_owned());
        files.get(name).map(|text| text.as_bytes().to_vec()).ok_or_else(|| "404".to_owned())
    };
    let origin = parse_url("http://test/").unwrap();
    let loaded = load(source, &origin, &mut read, limit);
    (loaded, asked)
}

#[test]
fn every_location_of_an_entry() {
    let urls = Sitemap::Urls(
        [
            "https://blog.example/",
            "https://blog.example/a?b=1&c=2",
            "https://blog.example/d?e=1&f=2",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    assert_eq!(Sitemap::parse(PLAIN.as_bytes()), Ok(urls.clone()));
    assert_eq!(Sitemap::parse(format!("\u{feff}\n{PLAIN}").as_bytes()), Ok(urls.clone()));
    assert_eq!(Sitemap::parse(&gzip(PLAIN.as_bytes())), Ok(urls.clone()));
    let prefixed = PLAIN
        .replace("<url", "<s:url")
        .replace("</url", "</s:url")
        .replace("<loc", "<s:loc")
        .replace("</loc", "</s:loc");
    assert_eq!(Sitemap::parse(prefixed.as_bytes()), Ok(urls));
}

#[test]
fn the_other_kinds() {
    assert_eq!(
        Sitemap::parse(index(&["https://h/a.xml", "https://h/b.xml.gz"]).as_bytes()),
        Ok(Sitemap::Index(vec!["https://h/a.xml".to_owned(), "https://h/b.xml.gz".to_owned()]))
    );
    assert_eq!(
        Sitemap::parse(b"\xef\xbb\xbfhttp://h/a\r\n\r\n  https://h/b  \n"),
        Ok(Sitemap::Urls(vec!["http://h/a".to_owned(), "https://h/b".to_owned()]))
    );
    assert_eq!(Sitemap::parse(b"<urlset/>"), Ok(Sitemap::Urls(vec![])));
}

#[test]
fn errors_say_what_it_is_instead() {
    assert_eq!(told(" \n"), "it is empty");
    assert!(told("<!DOCTYPE html>\n<HTML><head>").contains("HTML page"));
    assert!(told("<rss><channel/></rss>").contains("<rss>"));
    assert!(told("<urlset><url><loc>http://h/").contains("ends before"));
    assert!(told("<urlset><url></urlset>").contains("not well-formed"));
    assert!(told("<!-- nothing -->").contains("no tag"));
    assert!(told("<urlset><url><loc>http://h/&nbsp;</loc></url></urlset>").contains("&nbsp;"));
    assert!(told("not found").contains("line 1 (\"not found\") is no URL"));
    assert!(told("http://h/\nx").contains("line 2"));
    assert_eq!(Sitemap::parse(b"<urlset>\xff"), Err(Problem::NotUtf8));
    let packed = gzip(PLAIN.as_bytes());
    assert!(matches!(Sitemap::parse(&packed[..packed.len() / 2]), Err(Problem::Gzip(_))));
}

#[test]
fn a_bomb_does_not_go_off() {
    let packed = gzip(&vec![b' '; MAX_BYTES as usize + 1]);
    assert!(packed.len() < 1 << 20);
    assert_eq!(Sitemap::parse(&packed), Err(Problem::TooLarge));
}

#[test]
fn an_index_is_followed_on_its_own_origin() {
    let (loaded, asked) = load_from(
        "http://me:secret@test:8080/sitemap.xml",
        &[
            (
                "http://me:secret@test:8080/sitemap.xml",
                index(&["https://live/a.xml", "/b.xml", "https://live/a.xml"]),
            ),
            ("http://test:8080/a.xml", url_set(&["https://live/1", "https://live/2"])),
            ("http://test:8080/b.xml", url_set(&["https://live/2", "https://live/3"])),
        ],
        3,
    );
    assert_eq!(loaded.unwrap(), ["https://live/1", "https://live/2", "https://live/3"]);
    let expected = [
        "http://me:secret@test:8080/sitemap.xml",
        "http://test:8080/a.xml",
        "http://test:8080/b.xml",
    ];
    assert_eq!(asked, expected);
}

#[test]
fn an_index_file_is_followed_on_the_loaded_origin() {
    let files = [
        ("maps/sitemap.xml", index(&["https://live/a.xml?x"])),
        ("http://test/a.xml?x", url_set(&["https://live/1"])),
    ];
    let (loaded, _) = load_from("maps/sitemap.xml", &files, 10);
    assert_eq!(loaded.unwrap(), ["https://live/1"]);
}

#[test]
fn what_is_followed_is_bounded() {
    // Two that name each other are read once each.
    let circle = [("http://h/a", index(&["http://h/b"])), ("http://h/b", index(&["http://h/a"]))];
    let (loaded, asked) = load_from("http://h/a", &circle, 10);
    assert!(loaded.unwrap_err().to_string().contains("no page"));
    assert_eq!(asked.len(), 2);

    let mut endless = 0;
    let mut read = |_: &str| {
        endless += 1;
        Ok(index(&[&format!("/{endless}")]).into_bytes())
    };
    let origin = parse_url("http://test/").unwrap();
    let deep = load("http://h/", &origin, &mut read, 10).unwrap_err();
    assert!(deep.to_string().contains("nested"), "{deep}");
    assert_eq!(endless, MAX_DEPTH + 1);

    let many: Vec<String> = (0..=MAX_FILES).map(|n| format!("/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (loaded, asked) = load_from("http://h/", &[("http://h/", index(&many))], 10);
    assert!(loaded.unwrap_err().to_string().contains("files"));
    assert_eq!(asked.len(), 1);

    let pages = [("http://h/", url_set(&["/1", "/2", "/3"]))];
    assert_eq!(load_from("http://h/", &pages, 3).0.unwrap().len(), 3);
    assert!(load_from("http://h/", &pages, 2).0.unwrap_err().to_string().contains("over 2 pages"));
}

#[test]
fn errors_name_the_file_and_no_password() {
    let files = [("http://me:secret@h/a", index(&["/b"]))];
    let (loaded, _) = load_from("http://me:secret@h/a", &files, 10);
    assert_eq!(loaded.unwrap_err().to_string(), "sitemap http://h/b: 404");
    let (loaded, _) = load_from("http://me:secret@h/c", &files, 10);
    assert_eq!(loaded.unwrap_err().to_string(), "sitemap http://h/c: 404");
    let (loaded, _) = load_from("missing.xml", &files, 10);
    assert_eq!(loaded.unwrap_err().to_string(), "sitemap missing.xml: 404");
    let bad = [("http://h/", index(&["b.xml"]))];
    let told = load_from("http://h/", &bad, 10).0.unwrap_err().to_string();
    assert!(told.contains("names a sitemap that is none: \"b.xml\""), "{told}");
}

proptest! {
    #[test]
    fn nothing_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        near in "(</?(s:)?(urlset|url|sitemapindex|sitemap|loc|html)/?>|<!\\[CDATA\\[|\\]\\]>|&(amp|#x?[0-9a-f]{0,8}|x);?|<!--|-->|<\\?|\\?>|http://h/|[a-z<>&'\" ]){0,30}",
        cut in 0..1000_usize,
    ) {
        let packed = gzip(near.as_bytes());
        let cut_xml = PLAIN.as_bytes().get(..cut).unwrap_or(PLAIN.as_bytes());
        for bytes in [&bytes, near.as_bytes(), &packed, cut_xml] {
            match Sitemap::parse(bytes) {
                Ok(Sitemap::Urls(found) | Sitemap::Index(found)) => {
                    prop_assert!(found.iter().all(|url| !url.trim().is_empty()));
                }
                Err(problem) => prop_assert!(!problem.to_string().is_empty()),
            }
        }
        prop_assert_eq!(
            Sitemap::parse(&packed),
            Sitemap::parse(near.as_bytes()),
            "packed or not"
        );
    }
}
