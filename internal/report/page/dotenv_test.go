package page

import (
	"strings"
	"testing"
)

func TestDotenv(t *testing.T) {
	for name, c := range map[string]struct {
		results     Results
		run, ending string
	}{
		"one":            {Results{Cases: []Result{{ID: "ab12", State: "succeeded"}}}, "ab12", "succeeded"},
		"one that fails": {Results{Cases: []Result{{ID: "ab12", State: "failed", Outcome: Failed}}}, "ab12", "failed"},
		"several":        {Results{Cases: []Result{{ID: "a", State: "succeeded"}, {ID: "b", State: "stopped", Outcome: Errored}, {ID: "c", State: "failed", Outcome: Failed}}}, "a b c", "stopped"},
		"an array":       {Results{ID: "ar", Cases: []Result{{ID: "a", State: "succeeded"}}}, "ar", "succeeded"},
		"nothing new":    {Results{Cases: []Result{{ID: "a", State: "succeeded", Outcome: Skipped}}}, "a", "succeeded"},
		"no run":         {Results{Cases: []Result{{Outcome: Errored}}}, "", "none"},
	} {
		var b strings.Builder
		if err := c.results.Dotenv(&b, "results\nBEE_STATE=/theirs"); err != nil {
			t.Fatal(err)
		}
		if want := "BEE_CI_RUN=" + c.run + "\nBEE_CI_STATE=" + c.ending + "\nBEE_CI_REPORT=results BEE_STATE=/theirs\n"; b.String() != want {
			t.Errorf("%s: got %q, want %q", name, b.String(), want)
		}
	}
}
