use super::*;
use crate::stats::samples::{closed_run, watched};

/// What the CPU of the server comes to, of a row that was spoilt.
fn judged(mut row: WatchRow, spoil: impl Fn(&mut Sample)) -> Option<CpuUse> {
    row.samples.iter_mut().for_each(spoil);
    let (mut result, circumstances) = closed_run();
    result.watch = vec![row];
    cpu_use(&result, circumstances.recorded_s, Stretch::Half)
}

#[track_caller]
fn check(workers: &[f64], state: CpuState, words: &str) {
    let cpu = judged(watched(workers), |_| {}).unwrap();
    assert_eq!(cpu.state, state, "{cpu:?}");
    assert!(cpu.reason().contains(words), "{}", cpu.reason());
}

#[test]
fn a_worker_of_one_thread_is_full_at_one_cpu() {
    check(&[0.97], CpuState::Full, "is full: nginx used 0.97 of 1 CPUs");
    check(&[0.0, 0.97, 0.96], CpuState::Full, "2 processes of nginx used 1.93 of 2 CPUs");
    check(&[0.95, 0.3], CpuState::Full, "is full: 2 processes of nginx");
    check(&[0.95, 0.6, 0.5], CpuState::Free, "is not full: 3 processes of nginx used 2.05 of 3");
    check(&[0.2], CpuState::Idle, "is not full: nginx used 0.20 of 1 CPUs");
    check(&[0.01], CpuState::Idle, "nginx used almost nothing");
}

#[test]
fn a_process_of_many_threads_may_wait_for_one_of_them() {
    let threads = |sample: &mut Sample| sample.processes[0].threads = Some(11);
    let cpu = judged(watched(&[1.02]), threads).unwrap();
    assert_eq!(cpu.state, CpuState::OneThread);
    assert!(cpu.reason().starts_with("one thread of the server may be full: nginx used 1.02 of 4"));
    assert_eq!(judged(watched(&[0.5]), threads).unwrap().state, CpuState::Idle);
    assert_eq!(judged(watched(&[3.8]), threads).unwrap().state, CpuState::Full);
}

#[test]
fn a_full_machine_is_the_servers_where_the_server_fills_it() {
    let full = |sample: &mut Sample| (sample.cpu_user, sample.cpu_system) = (Some(3.0), Some(0.9));
    let cpu = judged(watched(&[0.7; 3]), full).unwrap();
    assert_eq!(cpu.state, CpuState::Full);
    assert!(cpu.reason().ends_with("its machine used 3.90 of 4 CPUs"), "{}", cpu.reason());
    let other = judged(watched(&[0.3]), full).unwrap();
    assert_eq!(other.state, CpuState::Crowded, "something else fills it: {other:?}");
    assert!(
        other.reason().starts_with("the server may wait for a CPU: its machine used 3.90 of 4")
    );
    let nobody = judged(watched(&[]), full).unwrap();
    assert_eq!(nobody.state, CpuState::Full, "nothing is known but the machine");
}

#[test]
fn the_generators_own_cpu_is_not_the_servers() {
    let (mut result, circumstances) = closed_run();
    result.generator.workers[0].cpu = 2.0;
    let mut row = watched(&[0.8, 0.8]);
    for sample in &mut row.samples {
        (sample.cpu_user, sample.cpu_system) = (Some(3.5), Some(0.3));
    }
    result.watch = vec![row.clone()];
    let here = cpu_use(&result, circumstances.recorded_s, Stretch::Half).unwrap();
    assert_eq!(here.state, CpuState::Full, "with the generator they fill the machine: {here:?}");
    row.source = "cmd:ssh host ringload watch --name nginx".to_owned();
    result.watch = vec![row];
    let there = cpu_use(&result, circumstances.recorded_s, Stretch::Half).unwrap();
    assert_eq!(there.state, CpuState::Crowded, "there something else uses most of it: {there:?}");
}

#[test]
fn vmstat_knows_shares_alone() {
    let shares = |sample: &mut Sample| {
        (sample.cpus, sample.cpu_user, sample.cpu_system) = (None, Some(0.8), Some(0.16));
    };
    let cpu = judged(watched(&[]), shares).unwrap();
    assert_eq!(cpu.reason(), "the server's CPU is full: its machine used 96 % of its CPUs");
}

#[test]
fn only_what_was_sampled_during_the_load_counts() {
    let outside = |sample: &mut Sample| {
        if !(2.0..=10.0).contains(&sample.t_s) {
            sample.processes[0].cpu = Some(0.0);
        }
    };
    assert_eq!(judged(watched(&[0.97]), outside).unwrap().state, CpuState::Full);
    let mut late = watched(&[0.97]);
    late.samples.iter_mut().for_each(|sample| sample.t_s += 20.0);
    assert_eq!(judged(late, |_| {}), None);
    assert_eq!(judged(WatchRow::default(), |_| {}), None);
}

#[test]
fn a_quarter_of_the_time_is_enough_for_a_load_that_grows() {
    let mut row = watched(&[0.5]);
    for sample in &mut row.samples[8..] {
        sample.processes[0].cpu = Some(0.99);
    }
    let (mut result, circumstances) = closed_run();
    result.watch = vec![row];
    let state = |stretch| cpu_use(&result, circumstances.recorded_s, stretch).unwrap().state;
    assert_eq!((state(Stretch::Half), state(Stretch::Quarter)), (CpuState::Free, CpuState::Full));
}
