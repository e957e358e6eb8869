package stats

// Agreement is how a measurement stands to a published claim.
type Agreement string

// The agreements. Undecided includes all that a stand-in measured.
const (
	Agrees    Agreement = "agrees"
	Disagrees Agreement = "disagrees"
	Undecided Agreement = "undecided"
)

// Check compares a finding with a claim: a range of the logarithm of a ratio. It agrees
// where the 90 % interval lies within the range, and disagrees where the 95 % interval
// shares nothing with the range. A contrast without a fair measurement is undecided.
func (f *Finding) Check(claim Interval) Agreement {
	switch f.Verdict {
	case Failed, Withheld, TooFew:
		return Undecided
	}
	switch {
	case f.Ninety.Within(claim):
		return Agrees
	case f.NinetyFive.Apart(claim):
		return Disagrees
	}
	return Undecided
}
