package report

// Fact is a name with its value, of one run.
type Fact struct{ Name, Value string }

// Pair is a fact of two runs. A value that is absent is "".
type Pair struct {
	Name   string    `json:"name"`
	Values [2]string `json:"values"`
}

// Differs reports whether the values differ.
func (p Pair) Differs() bool { return p.Values[0] != p.Values[1] }

// Pairs puts the facts of two runs side by side: in the order of the first, and then those
// that only the second has.
func Pairs(first, second []Fact) []Pair {
	var pairs []Pair
	at := map[string]int{}
	for i, facts := range [2][]Fact{first, second} {
		for _, f := range facts {
			place, is := at[f.Name]
			if !is {
				place = len(pairs)
				at[f.Name], pairs = place, append(pairs, Pair{Name: f.Name})
			}
			pairs[place].Values[i] = f.Value
		}
	}
	return pairs
}
