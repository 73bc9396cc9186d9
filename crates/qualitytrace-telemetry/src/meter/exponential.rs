//! Arithmetic of exponential histograms: points of different scales are brought to the coarser scale.

use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, exponential_histogram_data_point::Buckets,
};

/// Limit on the buckets of a sum on each side, unless one of its parts has more.
const MAX_BUCKETS: usize = 160;

/// Adds a point to another.
pub(super) fn add(sum: &mut ExponentialHistogramDataPoint, other: &ExponentialHistogramDataPoint) {
    let mut other = other.clone();
    let scale = sum.scale.min(other.scale);
    rescale(sum, scale);
    rescale(&mut other, scale);
    let positive = excess(sum.positive.as_ref(), other.positive.as_ref());
    let excess = positive.max(excess(sum.negative.as_ref(), other.negative.as_ref()));
    rescale(sum, scale - excess);
    rescale(&mut other, scale - excess);
    sum.start_time_unix_nano = sum.start_time_unix_nano.min(other.start_time_unix_nano);
    sum.time_unix_nano = sum.time_unix_nano.max(other.time_unix_nano);
    sum.count += other.count;
    sum.zero_count += other.zero_count;
    sum.sum = sum.sum.zip(other.sum).map(|(a, b)| a + b);
    sum.min = sum.min.zip(other.min).map(|(a, b)| a.min(b));
    sum.max = sum.max.zip(other.max).map(|(a, b)| a.max(b));
    unite(&mut sum.positive, other.positive);
    unite(&mut sum.negative, other.negative);
}

/// Subtracts an earlier point of the same series.
pub(super) fn subtract(point: &mut ExponentialHistogramDataPoint, mut before: ExponentialHistogramDataPoint) {
    let scale = point.scale.min(before.scale);
    rescale(point, scale);
    rescale(&mut before, scale);
    point.count = point.count.saturating_sub(before.count);
    point.zero_count = point.zero_count.saturating_sub(before.zero_count);
    point.sum = point.sum.zip(before.sum).map(|(now, before)| now - before);
    take(&mut point.positive, before.positive);
    take(&mut point.negative, before.negative);
}

/// Brings a point to a coarser scale: merges neighbouring buckets.
fn rescale(point: &mut ExponentialHistogramDataPoint, scale: i32) {
    let by = point.scale - scale;
    if by <= 0 {
        return;
    }
    for buckets in [&mut point.positive, &mut point.negative].into_iter().flatten() {
        let (first, counts) = (buckets.offset, std::mem::take(&mut buckets.bucket_counts));
        buckets.offset = first >> by;
        for (index, count) in (first..).zip(counts) {
            let at = usize::try_from((index >> by) - buckets.offset).unwrap_or(0);
            if buckets.bucket_counts.len() <= at {
                buckets.bucket_counts.resize(at + 1, 0);
            }
            buckets.bucket_counts[at] += count;
        }
    }
    point.scale = scale;
}

/// The first and the last index in use.
fn range(buckets: &Buckets) -> Option<(i32, i32)> {
    let len = i32::try_from(buckets.bucket_counts.len()).ok()?;
    (len > 0).then(|| (buckets.offset, buckets.offset.saturating_add(len - 1)))
}

/// By how many scales both must become coarser to bound the buckets of their sum.
fn excess(one: Option<&Buckets>, other: Option<&Buckets>) -> i32 {
    let (Some(one), Some(other)) = (one, other) else { return 0 };
    let (Some((a, b)), Some((c, d))) = (range(one), range(other)) else { return 0 };
    let room = MAX_BUCKETS.max(one.bucket_counts.len()).max(other.bucket_counts.len());
    let room = i64::try_from(room).unwrap_or(i64::MAX);
    let width = |by: i32| i64::from(b.max(d) >> by) - i64::from(a.min(c) >> by) + 1;
    (0..31).find(|by| width(*by) <= room).unwrap_or(31)
}

fn unite(sum: &mut Option<Buckets>, other: Option<Buckets>) {
    let Some(other) = other.filter(|other| !other.bucket_counts.is_empty()) else { return };
    let Some(sum) = sum.as_mut().filter(|sum| !sum.bucket_counts.is_empty()) else {
        *sum = Some(other);
        return;
    };
    let first = sum.offset.min(other.offset);
    let mut counts = Vec::new();
    for buckets in [&*sum, &other] {
        let from = usize::try_from(buckets.offset - first).unwrap_or(0);
        let end = from + buckets.bucket_counts.len();
        counts.resize(end.max(counts.len()), 0);
        for (sum, count) in counts[from..end].iter_mut().zip(&buckets.bucket_counts) {
            *sum += count;
        }
    }
    *sum = Buckets { offset: first, bucket_counts: counts };
}

/// Subtracts the earlier counts. Their buckets are still there: buckets of a series never shrink.
fn take(now: &mut Option<Buckets>, before: Option<Buckets>) {
    let (Some(now), Some(before)) = (now, before) else { return };
    for (index, count) in (before.offset..).zip(before.bucket_counts) {
        let at = usize::try_from(i64::from(index) - i64::from(now.offset)).ok();
        if let Some(now) = at.and_then(|at| now.bucket_counts.get_mut(at)) {
            *now = now.saturating_sub(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(scale: i32, offset: i32, counts: &[u64]) -> ExponentialHistogramDataPoint {
        let count = counts.iter().sum();
        let positive = Some(Buckets { offset, bucket_counts: counts.to_vec() });
        ExponentialHistogramDataPoint { scale, count, positive, ..ExponentialHistogramDataPoint::default() }
    }

    fn shown(point: &ExponentialHistogramDataPoint) -> (i32, u64, i32, Vec<u64>) {
        let buckets = point.positive.clone().unwrap_or_default();
        (point.scale, point.count, buckets.offset, buckets.bucket_counts)
    }

    #[test]
    fn points_of_two_scales_are_added_at_the_coarser_one() {
        let mut sum = point(1, -1, &[1, 2, 3]);
        add(&mut sum, &point(0, 1, &[4]));
        assert_eq!(shown(&sum), (0, 10, -1, vec![1, 5, 4]));
    }

    #[test]
    fn a_sum_of_distant_points_is_bounded() {
        let mut sum = point(20, -60_000_000, &[1]);
        add(&mut sum, &point(20, 60_000_000, &[1]));
        let (scale, count, _, counts) = shown(&sum);
        assert_eq!((count, counts.iter().sum::<u64>()), (2, 2));
        assert!(counts.len() <= MAX_BUCKETS && scale < 2, "{scale} {}", counts.len());
    }

    #[test]
    fn an_earlier_point_is_taken_from_a_coarser_one() {
        let mut now = point(0, -1, &[3, 9]);
        subtract(&mut now, point(1, -2, &[1, 1, 1]));
        assert_eq!(shown(&now), (0, 9, -1, vec![1, 8]));
    }
}
