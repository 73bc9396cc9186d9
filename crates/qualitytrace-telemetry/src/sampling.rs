//! The sampling decision of a sink. Pure, and the same for all spans of a trace in this process.

use opentelemetry::trace::TraceId;

use crate::config::Sampler;

/// Whether a sampler takes a trace; `remote` is the decision of the caller in another process, if there is one.
pub(crate) fn takes(sampler: &Sampler, trace: TraceId, remote: Option<bool>) -> bool {
    match sampler {
        Sampler::AlwaysOn => true,
        Sampler::AlwaysOff => false,
        Sampler::Ratio(share) => ratio(*share, trace),
        Sampler::ParentBased { root, remote_sampled, remote_not_sampled } => {
            let inner = match remote {
                None => root,
                Some(true) => remote_sampled,
                Some(false) => remote_not_sampled,
            };
            takes(inner, trace, remote)
        }
    }
}

/// Compares the lower 63 bits of the id with the share, as the OpenTelemetry SDKs do.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of 2^63 needs no more than 53 bits"
)]
fn ratio(share: f64, trace: TraceId) -> bool {
    let bytes = trace.to_bytes();
    let low = u64::from_be_bytes(bytes[8..].try_into().unwrap_or_default()) >> 1;
    low < (share.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::{Sampler, TraceId, takes};

    #[test]
    fn a_ratio_takes_its_share_and_the_caller_decides_before_it() {
        let ids = (0..10_000_u128)
            .map(|i| TraceId::from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)));
        let quarter = Sampler::parent_based(Sampler::Ratio(0.25));
        let taken = ids.filter(|id| takes(&quarter, *id, None)).count();
        assert!((2_300..2_700).contains(&taken), "{taken}");
        let id = TraceId::from(u128::MAX);
        assert!(!takes(&quarter, id, None));
        assert!(takes(&quarter, id, Some(true)));
        assert!(!takes(&Sampler::parent_based(Sampler::AlwaysOn), id, Some(false)));
        assert!(takes(&Sampler::AlwaysOn, id, Some(false)));
    }
}
