//! The normal distribution with the same bits on every machine: its functions are `libm`'s and not the system's, so that
//! the same workload has the same lengths everywhere.

#![expect(clippy::excessive_precision, reason = "coefficients as they were published")]

use std::f64::consts::FRAC_1_SQRT_2;

/// The share of a standard normal distribution below `x`.
pub(super) fn cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The value below which the share `p` (in `(0, 1)`) of a standard normal distribution lies, to 1 part in 10^16.
/// Algorithm AS 241 (PPND16): Wichura, The percentage points of the normal distribution, Applied Statistics 37 (1988).
pub(super) fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(r, &MIDDLE);
    }
    let r = (-libm::log(if q < 0.0 { p } else { 1.0 - p })).sqrt();
    let tail = if r <= 5.0 { ratio(r - 1.6, &NEAR) } else { ratio(r - 5.0, &FAR) };
    if q < 0.0 { -tail } else { tail }
}

/// Coefficients of two polynomials, lowest power first.
type Ratio = [[f64; 8]; 2];

fn ratio(x: f64, [above, below]: &Ratio) -> f64 {
    let value = |coefficients: &[f64; 8]| coefficients.iter().rev().fold(0.0, |sum, one| sum * x + one);
    value(above) / value(below)
}

#[rustfmt::skip]
const MIDDLE: Ratio = [
    [
        3.387_132_872_796_366_608, 1.331_416_678_917_843_774_5e2, 1.971_590_950_306_551_442_7e3,
        1.373_169_376_550_946_112_5e4, 4.592_195_393_154_987_145_7e4, 6.726_577_092_700_870_085_3e4,
        3.343_057_558_358_812_810_5e4, 2.509_080_928_730_122_672_7e3,
    ],
    [
        1.0, 4.231_333_070_160_091_125_2e1, 6.871_870_074_920_579_083e2,
        5.394_196_021_424_751_107_7e3, 2.121_379_430_158_659_586_7e4, 3.930_789_580_009_271_061e4,
        2.872_908_573_572_194_267_4e4, 5.226_495_278_852_854_561e3,
    ],
];

#[rustfmt::skip]
const NEAR: Ratio = [
    [
        1.423_437_110_749_683_577_34, 4.630_337_846_156_545_295_9, 5.769_497_221_460_691_405_5,
        3.647_848_324_763_204_605_04, 1.270_458_252_452_368_382_58, 2.417_807_251_774_506_117_7e-1,
        2.272_384_498_926_918_458_33e-2, 7.745_450_142_783_414_076_4e-4,
    ],
    [
        1.0, 2.053_191_626_637_758_821_87, 1.676_384_830_183_803_849_4,
        6.897_673_349_851_000_045_5e-1, 1.481_039_764_274_800_745_9e-1, 1.519_866_656_361_645_719_66e-2,
        5.475_938_084_995_344_946e-4, 1.050_750_071_644_416_843_24e-9,
    ],
];

#[rustfmt::skip]
const FAR: Ratio = [
    [
        6.657_904_643_501_103_777_2, 5.463_784_911_164_114_369_9, 1.784_826_539_917_291_335_8,
        2.965_605_718_285_048_912_3e-1, 2.653_218_952_657_612_309_3e-2, 1.242_660_947_388_078_438_6e-3,
        2.711_555_568_743_487_578_15e-5, 2.010_334_399_292_288_132_65e-7,
    ],
    [
        1.0, 5.998_322_065_558_879_376_9e-1, 1.369_298_809_227_358_053_1e-1,
        1.487_536_129_085_061_485_25e-2, 7.868_691_311_456_132_591e-4, 1.846_318_317_510_054_681_8e-5,
        1.421_511_758_316_445_888_7e-7, 2.044_263_103_389_939_785_64e-15,
    ],
];

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF as _, Normal};

    use super::*;

    #[test]
    fn the_quantile_inverts_the_distribution_and_agrees_with_another_implementation() {
        let other = Normal::standard();
        for step in 1..4_000 {
            let p = f64::from(step) / 4_000.0;
            for p in [p, p * 1e-6, p * 1e-12] {
                let x = quantile(p);
                assert!((cdf(x) / p - 1.0).abs() < 1e-13, "{p}: {x}");
                assert!((x - other.inverse_cdf(p)).abs() < 1e-9, "{p}: {x}");
                assert!((cdf(x) - other.cdf(x)).abs() < 1e-10, "{p}: {x}");
            }
            assert!((quantile(1.0 - p) + quantile(p)).abs() < 1e-9);
        }
        // Pinned: a change of these bits would change stored plans.
        let bits = [quantile(0.3), quantile(1e-9), cdf(1.5)].map(f64::to_bits);
        assert_eq!(bits, [13_826_270_636_307_301_882, 13_841_810_985_641_620_903, 4_606_580_673_026_537_218]);
    }
}
