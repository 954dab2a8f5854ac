//! What memory this machine has to give to one more process.

use std::fs;
use std::path::Path;

use shoal_config::Bytes;
use shoal_daemon::whole::Room;

/// Where the system keeps groups of processes and what they may take.
const GROUPS: &str = "/sys/fs/cgroup";

/// What may be taken: what was typed, or else what is free. Where the system does not say, nothing is refused beforehand.
#[must_use]
pub fn room(typed: Option<Bytes>, threads: u32) -> Room {
    let free = || fs::read_to_string("/proc/meminfo").ok().and_then(|text| free(&text));
    let group = || {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        group(&groups, |path| fs::read_to_string(Path::new(GROUPS).join(path)).ok())
    };
    let bytes = typed.map_or_else(|| free().into_iter().chain(group()).min().unwrap_or(u64::MAX), |typed| typed.0);
    Room { threads: threads as usize, bytes, text: 0 }
}

/// What can be had without swapping, from `/proc/meminfo`.
fn free(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// What the group of processes (version 2) and every group around it have left; `file` reads one of their files.
fn group(groups: &str, file: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.trim_matches('/');
    let number = |path: String| file(&path)?.trim().parse::<u64>().ok();
    let mut left: Option<u64> = None;
    let mut path = own;
    loop {
        let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        if let (Some(most), Some(now)) = (number(at("memory.max")), number(at("memory.current"))) {
            // What is kept of files is given up when somebody needs the room.
            let statistics = file(&at("memory.stat")).unwrap_or_default();
            let of_files = statistics.lines().find_map(|line| line.strip_prefix("file ")?.trim().parse::<u64>().ok());
            let here = most.saturating_sub(now.saturating_sub(of_files.unwrap_or(0)));
            left = Some(left.map_or(here, |left| left.min(here)));
        }
        if path.is_empty() {
            return left;
        }
        path = path.rsplit_once('/').map_or("", |(around, _)| around);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_what_the_system_says() {
        let text = "MemTotal:       16384000 kB\nMemFree:          100000 kB\nMemAvailable:    8000000 kB\n";
        assert_eq!(free(text), Some(8_000_000 << 10));
        assert_eq!(free("MemTotal: 1 kB\n"), None);
        assert_eq!(room(Some(Bytes(5)), 2), Room { threads: 2, bytes: 5, text: 0 });
    }

    #[test]
    fn the_narrowest_group_around_counts() {
        let file = |path: &str| {
            let text = match path {
                "a/b/memory.max" => "max\n",
                "a/memory.max" => "1000\n",
                "a/memory.current" => "700\n",
                "a/memory.stat" => "anon 400\nfile 300\n",
                "memory.max" => "5000\n",
                "memory.current" | "a/b/memory.current" => "100\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        assert_eq!(group("1:cpu:/x\n0::/a/b\n", file), Some(600));
        assert_eq!(group("0::/\n", file), Some(4900));
        assert_eq!(group("0::/c\n", |_| None), None);
        assert_eq!(group("4:memory:/c\n", file), None, "only version 2 has them where we look");
    }
}
