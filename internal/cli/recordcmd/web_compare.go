package recordcmd

import (
	"context"

	"github.com/bee-hpc/bee/internal/report"
)

// webComparison is two runs side by side.
type webComparison struct {
	comparison
	Results []report.Pair `json:"results"`
}

// Compare implements web.Records.
func (w *webRecords) Compare(ctx context.Context, first, second string) (any, error) {
	both, err := compare(ctx, w.s, [2]string{first, second})
	return webComparison{both, both.results}, err
}
