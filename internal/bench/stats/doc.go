// Package stats compares the figures of two environments that were measured alternately, and
// decides whether one costs more than the other. All functions are pure. The package
// imports the standard library only, and knows no study, file or run.
//
// # The robust method
//
// A block holds each environment once and the baseline twice, in random order (Order).
// The paired figure of a block is L = ln(environment/baseline), with its sign set so that
// positive is worse (LogRatio). A block is the unit of analysis: drift between blocks
// cancels, and under no difference the sign of L is random whatever the noise is.
//
//   - Estimate: the Hodges–Lehmann estimator, the median of all averages (L_i+L_j)/2 with
//     i ≤ j, the Walsh averages (Hodges and Lehmann, Ann. Math. Statist. 34, 1963).
//   - Interval: ordered Walsh averages, chosen by the exact distribution of Wilcoxon's
//     signed-rank statistic (Hollander, Wolfe and Chicken, Nonparametric Statistical
//     Methods, 3rd ed., section 3.4). Zeros and ties only widen its coverage.
//   - Test: the exact signed-rank test with Pratt's treatment of zeros (J. Amer. Statist.
//     Assoc. 54, 1959) and midranks for ties, conditional on the sizes of L.
//   - Equivalence: two one-sided tests at 5 % (Schuirmann, J. Pharmacokinet. Biopharm. 15,
//     1987): the 90 % interval lies within 1/(1+m) and 1+m, for the margin m.
//   - Families: Holm's step-down adjustment (Scand. J. Statist. 6, 1979) over all primary
//     contrasts of a study.
//   - Looks: a study stops when its 90 % intervals are narrow enough (Precise), never
//     because a difference is significant. A stop by precision leaves the error rates
//     of the verdicts almost as they are; the tests simulate how far.
//   - A/A: the baseline against itself in the same blocks. Where even that is not
//     equivalent, the margin becomes what A/A resolves, and the verdict names it.
//
// # Other methods
//
// Beserra repeats the analysis of Beserra's dissertation (2016), and Summarize those of
// papers that state a mean or another single figure. Neither has a test.
package stats
