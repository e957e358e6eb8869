package recordcmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/report"
)

// spentText lists the uses of a run's time, without those of less than a millisecond.
func spentText(seconds map[report.Use]float64) string {
	total := 0.0
	for _, s := range seconds {
		total += s
	}
	var parts []string
	for _, w := range report.Uses() {
		took := time.Duration(seconds[w.On] * float64(time.Second))
		if took < time.Millisecond {
			continue
		}
		text := console.DurationText(took) + " " + w.Text
		if w.On == report.OnCompute {
			text += fmt.Sprintf(" (%.0f %%)", 100*seconds[w.On]/total)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
