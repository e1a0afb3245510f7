//! Numbers for people.

/// `1 thing`, `2 things`.
pub fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// `64 KiB`.
pub fn bytes(number: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| number >> shift != 0) {
        Some((shift, unit)) if number.is_multiple_of(1 << shift) => format!("{} {unit}", number >> shift),
        Some((shift, unit)) => format!("{:.1} {unit}", number as f64 / (1_u64 << shift) as f64),
        None => format!("{number} B"),
    }
}

/// `1.25 ms`.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// `7.81 GB/s`.
pub fn rate(bytes: u64, ns: u64) -> String {
    let per_second = bytes as f64 * 1e9 / ns.max(1) as f64;
    if per_second >= 1e9 {
        format!("{:.2} GB/s", per_second / 1e9)
    } else {
        format!("{:.1} MB/s", per_second / 1e6)
    }
}

/// `12.5`, or `-` if there is nothing to share among.
pub fn per(number: u64, of: u64) -> String {
    if of == 0 { "-".into() } else { format!("{:.1}", number as f64 / of as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let sizes =
            [(0, "0 B"), (1023, "1023 B"), (1 << 16, "64 KiB"), (1 << 23, "8 MiB"), (1_500_000, "1.4 MiB")];
        sizes.into_iter().for_each(|(number, text)| assert_eq!(bytes(number), text));
        assert_eq!([time(999), time(1_500), time(2_345_678)], ["999 ns", "1.50 us", "2.35 ms"]);
        assert_eq!([rate(8000, 1000), rate(1, 1000), rate(0, 0)], ["8.00 GB/s", "1.0 MB/s", "0.0 MB/s"]);
        assert_eq!([count(1, "byte"), count(0, "byte")], ["1 byte", "0 bytes"]);
        assert_eq!([per(5, 2), per(5, 0)], ["2.5", "-"]);
    }
}
