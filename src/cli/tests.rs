//! Whole command lines: what they mean, and what is said of those that mean nothing.

use std::io::Write;
use std::net::IpAddr;

use clap::ArgAction;

use super::*;
use crate::clock::SECOND;
use crate::plan::describe::describe;
use crate::plan::{Close, IpFamily, Lifetime, Load, Pick, Spin, Target};

fn machine() -> Machine {
    Machine { allowed: vec![0, 1, 2, 3], usable: vec![0, 1, 2, 3] }
}

fn read(words: &[&str]) -> Result<Command, CliError> {
    let args = ["ringload"].iter().chain(words).map(OsString::from).collect();
    parse_on(args, &machine())
}

fn run(words: &[&str]) -> RunCommand {
    let words: Vec<&str> = ["run"].iter().chain(words).copied().collect();
    match read(&words) {
        Ok(Command::Run(run)) => *run,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn refused(words: &[&str]) -> String {
    let words: Vec<&str> = ["run"].iter().chain(words).copied().collect();
    match read(&words) {
        Err(error) if error.exit_code() == 2 => error.to_string(),
        other => panic!("{words:?}: {other:?}"),
    }
}

fn plan_file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn header_values(run: &RunCommand, name: &str) -> Vec<String> {
    let named = run.plan.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
    named.map(|h| String::from_utf8(h.value.clone()).unwrap()).collect()
}

#[test]
fn clap_finds_no_fault_in_the_definitions() {
    Typed::command().debug_assert();
}

#[test]
fn plain_run_has_the_contracts_defaults() {
    let RunCommand { plan, output, dry_run } = run(&["http://127.0.0.1:8080/"]);
    assert_eq!(plan.target, Target::Origin { host: "127.0.0.1".into(), port: 8080 });
    assert_eq!((plan.threads, &plan.cpus[..]), (4, &[0, 1, 2, 3][..]));
    assert_eq!((plan.end.duration_ns, plan.end.requests), (Some(10 * SECOND), None));
    assert_eq!((plan.spin, plan.pick, plan.lifetime), (Spin::Auto, Pick::Random, Lifetime::All));
    assert_eq!((output, dry_run), (Output::default(), false));
    assert!(plan.seed <= u64::from(u32::MAX));
}

#[test]
fn seeds_are_drawn() {
    let seeds: Vec<u64> = (0..4).map(|_| run(&["embedded"]).plan.seed).collect();
    assert!(seeds.iter().any(|seed| *seed != seeds[0]), "{seeds:?}");
    assert_eq!(run(&["embedded", "--seed", "18446744073709551615"]).plan.seed, u64::MAX);
}

#[test]
fn embedded_server_and_generator_share_the_cpus() {
    let plan = run(&["embedded"]).plan;
    assert_eq!((plan.threads, plan.cpus), (2, vec![0, 1]));
    assert_eq!(plan.target, Target::Embedded { cpus: vec![2, 3], tls: false });
}

#[test]
fn all_flags_together() {
    let line = "http://h/ -r 100..5k@2m,5k@1m -c 600 -n 1M -d 1h --arrivals poisson --arrive clients \
                --requests-per-connection 1..20 --open-rate 1k --think 1s..3s --drop-after 2s \
                --warmup 5s --timeout 60s --connect-timeout 3s --grace 1s -m PUT -u a:b \
                --user-agent me --pick in-order --connect-to [::1]:81 -6 --source fd00::1-fd00::3 \
                --close rst -t 2 --cpus 1,3 --spin always --seed 7 --label x --json - --progress \
                line --color never --dry-run";
    let RunCommand { plan, output, dry_run } = run(&line.split_whitespace().collect::<Vec<_>>());
    let Load::Open { rate, max_connections, .. } = &plan.load else { panic!("{:?}", plan.load) };
    assert_eq!(rate.to_string(), "100..5k@2m,5k@1m");
    assert_eq!(max_connections.as_ref().unwrap().to_string(), "600");
    assert_eq!(plan.end.duration_ns, Some(180 * SECOND));
    assert_eq!((plan.dial.family, plan.dial.close), (Some(IpFamily::V6), Close::Rst));
    assert_eq!(plan.dial.sources.len(), 3);
    assert_eq!((plan.spin, plan.pick, plan.seed), (Spin::Always, Pick::InOrder, 7));
    assert_eq!((plan.threads, plan.cpus), (2, vec![1, 3]));
    assert_eq!(plan.pages[0].method, "PUT");
    assert_eq!(output.json, Some(Sink::Stdout));
    assert!(output.takes_stdout() && dry_run);
    assert_eq!((output.progress, output.color), (Progress::Line, Color::Never));
}

#[test]
fn own_connection_close_is_a_new_connection_each() {
    let plan = run(&["http://h/", "-H", "Connection: close"]).plan;
    assert_eq!(plan.lifetime, Lifetime::Exactly(1));
    let error = refused(&["h", "-H", "Connection: close", "--requests-per-connection", "5"]);
    assert!(error.contains("Connection: close"), "{error}");
}

#[test]
fn quiet_is_no_progress() {
    assert_eq!(run(&["h", "--quiet"]).output.progress, Progress::None);
}

#[test]
fn wrong_arguments_are_told_with_the_remedy() {
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["URL is missing", "http://127.0.0.1:8080/"]),
        (&["h", "--rate", "10kk"], &["10kk", "--rate", "10k"]),
        (&["h", "-r", "0"], &["--rate", "above 0"]),
        (&["h", "-r", "100@5s,,200@5s"], &["--rate", "hole", "100@30s"]),
        (&["h", "-r", "100@5s,200"], &["--rate", "segment 2", "duration"]),
        (&["h", "-c", "0"], &["--connections", "above 0"]),
        (&["h", "-c", "2.5"], &["--connections", "whole number"]),
        (&["h", "-c", "9G"], &["--connections", "4294967295"]),
        (&["h", "-t", "0"], &["--threads", "at least 1"]),
        (&["h", "-n", "0"], &["--requests", "at least 1"]),
        (&["h", "-d", "10"], &["--duration", "unit is missing", "write 10s", "-n 10"]),
        (&["h", "--timeout", "1"], &["--timeout", "unit is missing", "1s are seconds"]),
        (&["h", "-n", "1.5"], &["--requests", "not a whole number"]),
        (&["h", "--probe", "/status"], &["--probe", "host is missing"]),
        (&["h", "--watch", "nginx"], &["--watch", "name:nginx"]),
        (&["h", "--link", "100"], &["--link", "267Mbit/s"]),
        (&["h", "-d", "0s"], &["--duration", "longer than 0"]),
        (&["http://"], &["host is missing"]),
        (&["https://h/", "--tls", "1.1"], &["--tls", "1.2 or 1.3"]),
        (&["https://h/", "--key", "/x"], &["--key", "--cert"]),
        (&["http://a/", "http://b/"], &["one origin", "http://a", "http://b"]),
        (&["h", "-H", "X-Header"], &["X-Header", "no colon", "Name: value"]),
        (&["h", "-4", "-6"], &["-4 and -6"]),
        (&["h", "-r", "5", "--arrive", "clients"], &["--requests-per-connection"]),
        (&["h", "-r", "5", "--think", "1s"], &["--think", "--arrive clients"]),
        (&["h", "--preconnect", "5"], &["--preconnect", "-r"]),
        (&["h", "--cpus", "9"], &["--cpus", "CPU 9", "0-3"]),
        (&["h", "-c", "2", "-t", "3"], &["-t 3", "-t 2"]),
        (&["h", "--source", "10.0.0.1", "--unix-socket", "/x"], &["--source", "--unix-socket"]),
        (&["h", "--json", "-", "--csv", "-"], &["--json - and --csv -", "stdout"]),
        (&["h", "--json", "/x.json", "--hgrm", "/x.json"], &["--json and --hgrm", "own file"]),
        (&["h", "--json", "/no/such/x"], &["--json", "/no/such", "make it first"]),
        (&["h", "--json", "/tmp"], &["--json", "directory"]),
        (&["h", "--quiet", "--progress", "bar"], &["--quiet", "--progress"]),
        (&["h", "--urls", "-", "--data", "@-"], &["--urls -", "--data @-"]),
        (&["h", "--spin", "some"], &["some", "--spin", "never"]),
        (&["h", "--rat", "5"], &["--rat", "--rate"]),
        (&["h", "--expect", "status=200"], &["--expect", "unexpected"]),
        (&["h", "--require", "p95<1s"], &["--require", "unexpected"]),
        (&["h", "-c", "5", "-c", "6"], &["--connections", "multiple times"]),
        (&["h", "--plan", "/no/such.toml"], &["--plan", "/no/such.toml"]),
    ];
    for (words, parts) in cases {
        let error = refused(words);
        for part in *parts {
            assert!(error.contains(part), "{words:?}: no \"{part}\" in: {error}");
        }
    }
}

#[test]
fn commands_that_are_not_there_do_not_parse() {
    for command in ["ceiling", "bench", "report", ""] {
        assert_eq!(read(&[command]).unwrap_err().exit_code(), 2, "{command}");
    }
    assert_eq!(read(&["doctor", "--json"]).unwrap_err().exit_code(), 2);
}

#[test]
fn help_and_version_are_no_mistake() {
    for words in [
        &["--help"][..],
        &["run", "--help"],
        &["hold", "--help"],
        &["serve", "-h"],
        &["doctor", "--help"],
    ] {
        let help = read(words).unwrap_err();
        assert_eq!(help.exit_code(), 0, "{words:?}");
        assert!(help.to_string().contains("Usage: ringload"), "{help}");
    }
    let help = read(&["run", "--help"]).unwrap_err().to_string();
    assert!(help.contains("Examples:") && !help.contains("disable-keepalive"), "{help}");
    let version = read(&["--version"]).unwrap_err();
    assert_eq!(version.exit_code(), 0);
    assert_eq!(version.to_string().trim(), concat!("ringload ", env!("CARGO_PKG_VERSION")));
    assert_eq!(read(&[]).unwrap_err().exit_code(), 2);
}

#[test]
fn serve_and_doctor() {
    assert_eq!(read(&["doctor"]).unwrap(), Command::Doctor);
    let Command::Serve(plan) = read(&["serve"]).unwrap() else { panic!("it serves") };
    assert_eq!((plan.http, plan.https), ("127.0.0.1:8080".parse().ok(), None));
    assert_eq!((plan.threads, plan.cpus.len(), plan.stall), (4, 4, None));
    let words = ["serve", "--http", "[::1]:0", "-t", "1", "--cpus", "2-3", "--stall", "1s@5s"];
    let Command::Serve(plan) = read(&words).unwrap() else { panic!("it serves") };
    assert_eq!((plan.threads, plan.cpus), (1, vec![2]));
    assert_eq!(plan.stall.unwrap().at_ns, 5 * SECOND);
    let error = read(&["serve", "--cpus", "7"]).unwrap_err();
    assert!(error.to_string().contains("CPU 7") && error.exit_code() == 2, "{error}");
}

#[test]
fn serving_https() {
    let Command::Serve(plan) = read(&["serve", "--https", "127.0.0.1:0"]).unwrap() else {
        panic!("it serves")
    };
    assert_eq!((plan.http, plan.https), (None, "127.0.0.1:0".parse().ok()));
    assert_eq!(plan.identity, None);
    let both = ["serve", "--http", "127.0.0.1:0", "--https", "127.0.0.1:0"];
    let Command::Serve(plan) = read(&both).unwrap() else { panic!("it serves") };
    assert!(plan.http.is_some() && plan.https.is_some());
    for (words, part) in [
        (&["--http", "127.0.0.1:1", "--https", "127.0.0.1:1"][..], "a port of its own"),
        (&["--cert", "x.pem"], "add --https"),
        (&["--https", "127.0.0.1:0", "--key", "x.pem"], "with --cert"),
        (&["--https", "127.0.0.1:0", "--cert", "/no/such.pem"], "/no/such.pem"),
    ] {
        let error = read(&[&["serve"], words].concat()).unwrap_err();
        assert!(error.to_string().contains(part) && error.exit_code() == 2, "{error}");
    }
}

/// Long flags of `run` with a value for each, and the same in a plan file.
fn every_flag() -> Vec<(String, String, String)> {
    let program = Typed::command();
    let run = program.find_subcommand("run").unwrap();
    let flags = run.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg.get_action())));
    flags
        .filter(|(name, _)| !["plan", "help"].contains(name))
        .map(|(name, action)| {
            let value = match name {
                "rate" => "10..20@5s",
                "connections" | "requests" => "50",
                "duration" | "drop-after" | "warmup" | "timeout" | "connect-timeout" | "grace" => {
                    "2s"
                }
                "think" => "1s..2s",
                "requests-per-connection" => "mean:2.5",
                "arrivals" => "poisson",
                "arrive" => "clients",
                "open-rate" => "7",
                "preconnect" | "threads" | "seed" => "1",
                "method" => "PUT",
                "header" => "X-A: b",
                "user" => "a:b",
                "data" => "body",
                "user-agent" => "me",
                "urls" => "LIST",
                "sitemap" => "SITEMAP",
                "pick" => "in-order",
                "connect-to" => "127.0.0.1:81",
                "source" => "127.0.0.1,127.0.0.2",
                "unix-socket" => "/run/x",
                "close" => "rst",
                "cacert" | "cert" | "key" => "PEM",
                "sni" => "other.example",
                "tls" => "1.2",
                "tls-resume" => "20%",
                "tls-groups" => "secp384r1,x25519",
                "cpus" => "0,2-3",
                "spin" => "never",
                "label" => "a label",
                "watch" => "port:8080",
                "probe" => "http://h:81/status",
                "link" => "267Mbit/s",
                "json" | "csv" | "hgrm" => "out.file",
                "progress" => "line",
                "color" => "always",
                "new-connections" | "ipv4" | "ipv6" | "insecure" | "quiet" | "dry-run" => "",
                other => panic!("give --{other} a value in this test"),
            };
            let is_number = value.parse::<u64>().is_ok();
            let written = match action {
                ArgAction::SetTrue => format!("{name} = true"),
                ArgAction::Append if value.contains(',') => {
                    format!("{name} = [\"{}\"]", value.replace(',', "\", \""))
                }
                _ if is_number => format!("{name} = {value}"),
                _ => format!("{name} = \"{value}\""),
            };
            (name.to_owned(), value.to_owned(), written)
        })
        .collect()
}

/// What a flag needs to be allowed.
fn company(flag: &str) -> &'static [&'static str] {
    match flag {
        "arrivals" | "drop-after" | "preconnect" => &["--rate=5"],
        "arrive" => &["--rate=5", "--requests-per-connection=2"],
        "warmup" => &["--connections=4"],
        "key" => &["--cert=PEM"],
        _ => &[],
    }
}

#[test]
fn every_flag_can_be_given_in_a_plan_file() {
    let list = plan_file("/a\n/b\n");
    let sitemap = plan_file("http://h/c\n");
    let made = rcgen::generate_simple_self_signed(vec!["h".into()]).unwrap();
    let pem = plan_file(&(made.cert.pem() + &made.signing_key.serialize_pem()));
    let paths = |text: &str| {
        text.replace("LIST", list.path().to_str().unwrap())
            .replace("SITEMAP", sitemap.path().to_str().unwrap())
            .replace("PEM", pem.path().to_str().unwrap())
    };
    let flags = every_flag();
    assert!(flags.len() >= 40, "{}", flags.len());
    for (name, value, written) in flags {
        let flag = if value.is_empty() { format!("--{name}") } else { format!("--{name}={value}") };
        let flag = paths(&flag);
        let file = plan_file(&paths(&written));
        let plan = format!("--plan={}", file.path().display());
        let mut rest = vec!["https://h/".to_owned()];
        rest.extend(company(&name).iter().map(|flag| paths(flag)));
        if name != "seed" {
            rest.push("--seed=1".to_owned());
        }
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let typed = run(&[&rest[..], &[&flag]].concat());
        let from_file = run(&[&rest[..], &[&plan]].concat());
        assert_eq!(typed, from_file, "{written}");
        assert_ne!(
            typed,
            run(&[&rest[..], &["--label=none"]].concat()),
            "{name} changes something"
        );
    }
}

#[test]
fn urls_can_be_given_in_a_plan_file() {
    let file = plan_file("url = [\"http://h/a\", \"http://h/b\"]\nrate = 1.5");
    let plan = format!("--plan={}", file.path().display());
    assert_eq!(run(&[&plan]).plan.pages.len(), 2);
    let typed = run(&[&plan, "http://other/"]);
    assert_eq!(typed.plan.target, Target::Origin { host: "other".into(), port: 80 });
}

#[test]
fn typed_flags_win_over_the_plan_file() {
    let file = plan_file(
        "connections = 7\nrate = 5\nipv6 = true\nnew-connections = true\nuser = \"a:b\"\n\
         header = [\"X-A: file\", \"X-B: file\", \"Cookie: file\"]\nquiet = true\n",
    );
    let plan = format!("--plan={}", file.path().display());
    let merged = run(&[
        "h",
        "-c",
        "9",
        "-4",
        "--requests-per-connection",
        "3",
        "-H",
        "x-a: typed",
        "-H",
        "Authorization: Bearer t",
        "-H",
        "Cookie:",
        &plan,
    ]);
    let Load::Open { max_connections, .. } = &merged.plan.load else { panic!("it has a rate") };
    assert_eq!(max_connections.as_ref().unwrap().to_string(), "9");
    assert_eq!(merged.plan.dial.family, Some(IpFamily::V4));
    assert_eq!(merged.plan.lifetime, Lifetime::Exactly(3));
    assert_eq!(header_values(&merged, "x-a"), ["typed"]);
    assert_eq!(header_values(&merged, "x-b"), ["file"]);
    assert_eq!(header_values(&merged, "cookie"), Vec::<String>::new());
    assert_eq!(header_values(&merged, "authorization"), ["Bearer t"]);
    assert_eq!(merged.output.progress, Progress::None);
}

#[test]
fn mistakes_in_a_plan_file_are_said_to_be_there() {
    let cases = [
        ("raet = 5", &["\"raet\"", "\"rate\""][..]),
        ("requests_per_connection = 5", &["\"requests-per-connection\""]),
        ("plan = \"x\"", &["\"plan\""]),
        ("rate = \"10kk\"", &["10kk", "--rate"]),
        ("quiet = 1", &["\"quiet\"", "quiet = true"]),
        ("rate = true", &["\"rate\"", "boolean"]),
        ("rate = [1, 2]", &["\"rate\"", "one value"]),
        ("spin = \"some\"", &["some", "never"]),
        ("url = \"--rate=5\"", &["--rate=5"]),
        ("\n\nuser = s3cret:x\n", &["line 3"]),
        ("[load]\nrate = 5", &["\"load\""]),
        ("header = [1979-05-27]", &["\"header\"", "datetime"]),
    ];
    for (text, parts) in cases {
        let file = plan_file(text);
        let name = file.path().display().to_string();
        let error = refused(&["h", "--plan", &name]);
        for part in parts.iter().chain(&["--plan", name.as_str()]) {
            assert!(error.contains(part), "{text}: no \"{part}\" in: {error}");
        }
        assert!(!error.contains("s3cret"), "{error}");
    }
    // What does not fit together names both.
    let file = plan_file("preconnect = 5");
    let name = file.path().display().to_string();
    let error = refused(&["h", "--plan", &name]);
    assert!(error.contains("--preconnect") && error.contains(&name), "{error}");
}

#[test]
fn secrets_are_in_no_output() {
    let secret = plan_file("s3cret-file\n");
    let key = format!("X-Plain: @{}", secret.path().display());
    let command = run(&[
        "http://u:s3cret-url@h/a",
        "-H",
        "Cookie: s3cret-cookie",
        "-H",
        &key,
        "--data",
        "s3cret-body",
        "--new-connections",
    ]);
    assert_eq!(header_values(&command, "x-plain"), ["s3cret-file"]);
    let address = (IpAddr::from([127, 0, 0, 1]), 80).into();
    let described = describe(&command.plan, &[address]);
    let json = serde_json::to_string(&described).unwrap();
    let text = described.to_string();
    let basic = "dTpzM2NyZXQtdXJs";
    for shown in [&json, &text] {
        assert!(!shown.contains("s3cret") && !shown.contains(basic), "{shown}");
    }
    for part in ["Cookie: ***", "X-Plain: ***", "Authorization: ***", "Connection: close"] {
        assert!(text.contains(part), "no \"{part}\" in: {text}");
    }
}
