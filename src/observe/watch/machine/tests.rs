//! Texts as kernels write them, shortened where the rest is not looked at.

use proptest::prelude::*;

use super::*;

/// `/proc/stat` of a machine with two CPUs, one second apart.
const STAT: [&[u8]; 2] = [
    b"cpu  1000 100 400 9000 50 10 40 5 0 0\n\
      cpu0 500 50 200 4500 25 5 20 2 0 0\n\
      cpu1 500 50 200 4500 25 5 20 3 0 0\n\
      intr 612166 0 0 9\nctxt 69939494\nbtime 1385632800\nprocesses 191802\n\
      procs_running 4\nprocs_blocked 0\n",
    b"cpu  1090 110 430 9050 55 11 49 10 0 0\n\
      cpu0 545 55 215 4525 27 5 24 5 0 0\n\
      cpu1 545 55 215 4525 28 6 25 5 0 0\n\
      intr 612180 0 0 9\nctxt 69939514\nbtime 1385632800\nprocesses 191802\n\
      procs_running 1\nprocs_blocked 0\n",
];

#[test]
fn cpus_are_those_since_the_last_look() {
    let mut last = None;
    let mut sample = Sample::default();
    fill_cpus(STAT[0], &mut last, &mut sample);
    assert_eq!((sample.cpus, sample.cpu_user, sample.run_queue), (Some(2), None, Some(3)));
    fill_cpus(STAT[1], &mut last, &mut sample);
    // 200 ticks in all: 100 user, 40 system (30 + 1 + 9), 50 idle, 5 iowait, 5 steal.
    assert_eq!(sample.cpu_user, Some(1.0));
    assert_eq!(sample.cpu_system, Some(0.4));
    assert_eq!(sample.cpu_iowait, Some(0.05));
    assert_eq!(sample.cpu_steal, Some(0.05));
    assert_eq!(sample.run_queue, Some(0));
}

#[test]
fn ticks_that_go_back_are_nothing_done() {
    let mut last = None;
    let mut sample = Sample::default();
    fill_cpus(STAT[1], &mut last, &mut sample);
    fill_cpus(STAT[0], &mut last, &mut sample);
    assert_eq!(sample.cpu_user, None);
}

#[test]
fn memory_of_a_kernel_that_knows_what_is_available() {
    let mut sample = Sample::default();
    fill_memory(
        b"MemTotal:        876544 kB\nMemFree:          28672 kB\nMemAvailable:     40960 kB\n\
          Buffers:           1024 kB\nCached:           20480 kB\nSwapCached:          8 kB\n\
          SwapTotal:      1048576 kB\nSwapFree:       1047552 kB\nSlab:             40000 kB\n\
          SReclaimable:     10000 kB\nSUnreclaim:       30000 kB\n",
        &mut sample,
    );
    assert_eq!(sample.mem_available, Some(40_960 * 1024));
    assert_eq!(sample.swap_used, Some(1024 * 1024));
    assert_eq!(sample.slab_bytes, Some(30_000 * 1024));
}

#[test]
fn memory_of_3_10_is_what_is_free_and_cached() {
    let mut sample = Sample::default();
    fill_memory(
        b"MemTotal:        1016232 kB\nMemFree:           72300 kB\nBuffers:            2108 kB\n\
          Cached:           640804 kB\nSwapCached:            0 kB\nSwapTotal:             0 kB\n\
          SwapFree:              0 kB\n",
        &mut sample,
    );
    assert_eq!(sample.mem_available, Some((72_300 + 2_108 + 640_804) * 1024));
    assert_eq!(sample.swap_used, Some(0));
    assert_eq!(sample.slab_bytes, None);
}

#[test]
fn tcp_memory_is_in_pages() {
    let text = b"sockets: used 1210\nTCP: inuse 5 orphan 0 tw 12 alloc 1043 mem 731\n\
        UDP: inuse 1 mem 2\n";
    assert_eq!(tcp_pages(text), Some(731));
    assert_eq!(tcp_pages(b"UDP: inuse 1 mem 2\n"), None);
}

#[test]
fn tcp_counters_of_3_10() {
    let mut sample = Sample::default();
    fill_netstat(
        b"TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPMemoryPressures TCPSACKDiscard\n\
          TcpExt: 0 17 19 2 0\n\
          IpExt: InNoRoutes ListenDrops\nIpExt: 0 99\n",
        &mut sample,
    );
    assert_eq!((sample.listen_overflows, sample.listen_drops), (Some(17), Some(19)));
    assert_eq!((sample.tcp_pressures, sample.tcp_pressure_ms), (Some(2), None));
    assert_eq!(sample.syn_retransmits, None);
}

#[test]
fn tcp_counters_of_a_current_kernel() {
    let mut sample = Sample::default();
    fill_netstat(
        b"TcpExt: ListenOverflows ListenDrops TCPMemoryPressures TCPMemoryPressuresChrono \
          TCPSynRetrans TCPOrigDataSent\nTcpExt: 0 1 3 61000 480 5\n",
        &mut sample,
    );
    assert_eq!((sample.tcp_pressures, sample.tcp_pressure_ms), (Some(3), Some(61_000)));
    assert_eq!(sample.syn_retransmits, Some(480));
    let mut opened = None;
    let snmp = b"Ip: Forwarding DefaultTTL\nIp: 2 64\n\
        Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens\n\
        Tcp: 1 200 120000 -1 25790688 45600\n";
    for_each_pair(snmp, "Tcp:", |name, value| {
        if name == b"PassiveOpens" {
            opened = Some(value);
        }
    });
    assert_eq!(opened, Some(45_600));
}

/// `/proc/net/dev`; the name may stand close to the first number.
const DEV: &[u8] = b"\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 5336029 7189    0    0    0     0          0         0  5336029    7189    0    0    0     0       0          0
  eth0:7475188 34928    0    3    4     0          0         0  2401494   28730    0    5    6     0       0          0
docker0:   100     1    0    0    0     0          0         0      200       2    0    0    0     0       0          0
";

#[test]
fn interfaces_with_a_device_are_summed() {
    let interfaces: Vec<_> = lines(DEV).filter_map(Interface::parse).collect();
    let names = || interfaces.iter().map(|interface| interface.name);
    assert!(names().eq([&b"lo"[..], b"eth0", b"docker0"]));
    let counts = |names: Vec<(Vec<u8>, bool)>| names.into_iter().map(|(_, counts)| counts);
    assert!(counts(counted(names(), |name| name == b"eth0")).eq([false, true, false]));
    assert!(counts(counted(names(), |_| false)).eq([false, true, true]));

    let mut known = counted(names(), |name| name == b"eth0");
    let mut sample = Sample::default();
    fill_interfaces(DEV, &mut known, &mut sample);
    assert_eq!(sample.net_received_bytes, Some(7_475_188));
    assert_eq!(sample.net_sent_bytes, Some(2_401_494));
    assert_eq!(sample.net_drops, Some(18));
}

#[test]
fn this_machine_is_sampled() {
    let (mut machine, mut buffer) = (Machine::new(), Buffer::new());
    let mut sample = Sample::default();
    machine.sample(&mut buffer, &mut sample);
    assert!(sample.cpus.unwrap() >= 1);
    assert!(sample.mem_available.unwrap() > 0);
    assert!(sample.passive_opens.is_some() && sample.listen_drops.is_some());
    assert!(sample.net_received_bytes.is_some());
}

proptest! {
    #[test]
    fn any_text_is_survived(
        text in proptest::collection::vec("(cpu|cpu0|TCP:|Tcp:|eth0:|MemFree:|mem)? ?[0-9 a-z:-]{0,60}", 0..8)
    ) {
        let text = text.join("\n");
        let text = text.as_bytes();
        let (mut last, mut names, mut sample) = (None, Vec::new(), Sample::default());
        fill_cpus(text, &mut last, &mut sample);
        fill_cpus(text, &mut last, &mut sample);
        fill_memory(text, &mut sample);
        fill_netstat(text, &mut sample);
        fill_interfaces(text, &mut names, &mut sample);
        let _ = tcp_pages(text);
        for_each_pair(text, "Tcp:", |_, _| ());
    }
}
