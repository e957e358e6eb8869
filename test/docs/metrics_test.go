package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/report"
)

// TestEveryMetricIsDocumented: the page of metrics has those that bee prints, and no others.
func TestEveryMetricIsDocumented(t *testing.T) {
	var printed strings.Builder
	if _, err := report.NewMetrics("", nil, time.Now()).WriteTo(&printed); err != nil {
		t.Fatal(err)
	}
	names := func(pattern, text string) (list []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		return list
	}
	has, shown := names(`(?m)^# TYPE (\S+) gauge$`, printed.String()), names("(?m)^\\| `(bee_[a-z_]+)` \\|", documents(t)["docs/reference/metrics.md"])
	if !slices.Equal(has, shown) {
		t.Errorf("bee prints %q, the page has %q", has, shown)
	}
}
