package page

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// Dotenv writes which runs there are and how they ended, as lines NAME=VALUE that CI services make
// variables of later jobs. Report is the file of the summary. No name is one that bee reads.
func (r *Results) Dotenv(w io.Writer, report string) error {
	ids, end := []string{r.ID}, "succeeded"
	for i := len(r.Cases) - 1; i >= 0; i-- { // the first that did not succeed counts
		if c := r.Cases[i]; c.Outcome != Passed && c.Outcome != Skipped {
			end = cmp.Or(c.State, "none")
		}
	}
	if r.ID == "" {
		ids = nil
		for _, c := range r.Cases {
			ids = append(ids, c.ID)
		}
	}
	oneLine := strings.NewReplacer("\n", " ", "\r", " ")
	_, err := fmt.Fprintf(w, "BEE_CI_RUN=%s\nBEE_CI_STATE=%s\nBEE_CI_REPORT=%s\n", oneLine.Replace(strings.Join(ids, " ")), oneLine.Replace(end), oneLine.Replace(report))
	return err
}
