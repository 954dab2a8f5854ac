use super::super::testing::{everywhere, values};

#[test]
fn add_rounds_once_and_copy_and_fill_are_exact() {
    for len in [0, 1, 17, 30_001] {
        let (a, b) = (values(1, len), values(2, len));
        let got = everywhere(|device| {
            let mut dst = a.clone();
            device.add_into(&mut dst, &b);
            dst
        });
        assert_eq!(got, a.iter().zip(&b).map(|(a, b)| a + b).collect::<Vec<_>>());
        let copied = everywhere(|device| {
            let mut dst = vec![0.0; len];
            device.copy(&mut dst, &a);
            dst
        });
        assert_eq!(copied, a);
        let filled = everywhere(|device| {
            let mut dst = a.clone();
            device.fill(&mut dst, 2.5);
            dst
        });
        assert!(filled.iter().all(|&x| x == 2.5));
    }
}

#[test]
fn what_is_made_is_made_once_and_in_its_place() {
    for len in [0, 1, 8_193, 200_001] {
        let got = everywhere(|device| {
            let mut dst = vec![0.0; len];
            device.make(&mut dst, |range, values| {
                assert_eq!(range.len(), values.len());
                for (i, value) in range.zip(values) {
                    *value += 1.0 + i as f32;
                }
            });
            dst
        });
        assert!(got.iter().enumerate().all(|(i, &x)| x == 1.0 + i as f32), "{len} elements");
    }
}
