//! `docs/seccomp.json` lets the ring through, and is what `docs/containers.md` says it is.

use serde_json::Value;

fn profile() -> Value {
    let text = include_str!("../docs/seccomp.json");
    serde_json::from_str(text).expect("docs/seccomp.json is JSON")
}

#[test]
fn ring_is_allowed() {
    let profile = profile();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ALLOW");
    for rule in profile["syscalls"].as_array().unwrap() {
        assert_eq!(rule["action"], "SCMP_ACT_ERRNO", "{rule}");
        for name in rule["names"].as_array().unwrap() {
            assert!(!name.as_str().unwrap().starts_with("io_uring"), "{rule}");
        }
    }
}

#[test]
fn namespaces_are_refused_in_every_way() {
    let profile = profile();
    let rules = profile["syscalls"].as_array().unwrap();
    let refuses = |name: &str, errno: i32| {
        rules.iter().any(|rule| {
            rule["errnoRet"] == errno && rule["names"].as_array().unwrap().contains(&name.into())
        })
    };
    for name in ["unshare", "setns", "mount", "ptrace", "bpf", "init_module"] {
        assert!(refuses(name, libc::EPERM), "{name}");
    }
    assert!(refuses("clone3", libc::ENOSYS));

    let of_clone: i64 = rules
        .iter()
        .filter(|rule| rule["names"] == serde_json::json!(["clone"]))
        .map(|rule| rule["args"][0]["value"].as_i64().unwrap())
        .sum();
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    assert_eq!(of_clone, i64::from(namespaces));
}
