package report

import (
	"reflect"
	"testing"
)

// TestPairs: what one run alone has is a difference, too.
func TestPairs(t *testing.T) {
	got := Pairs([]Fact{{"image", "a"}, {"nodes", "2"}}, []Fact{{"cores", "4"}, {"nodes", "2"}})
	want := []Pair{{"image", [2]string{"a", ""}}, {"nodes", [2]string{"2", "2"}}, {"cores", [2]string{"", "4"}}}
	if !reflect.DeepEqual(got, want) || !got[0].Differs() || got[1].Differs() || !got[2].Differs() {
		t.Errorf("%+v, want %+v", got, want)
	}
}
