//! Memory of this process, as the system counts it.

/// The most memory that was resident at once, in MiB.
pub(super) fn peak_mib() -> std::io::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| std::io::Error::other("no VmHWM in /proc/self/status"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn touched_memory_is_resident() {
        let before = super::peak_mib().expect("linux");
        let block = vec![1u8; 64 << 20];
        assert_eq!(std::hint::black_box(&block)[12345], 1);
        assert!(super::peak_mib().expect("linux") >= before.max(64.0));
    }
}
