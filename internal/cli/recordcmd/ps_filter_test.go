package recordcmd

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runview"
)

func TestPsByLabel(t *testing.T) {
	v := runview.View{Labels: map[string]string{"team": "md", "paper": ""}}
	for label, want := range map[string]bool{"team": true, "team=md": true, "team=pi": false, "paper": true, "paper=": true, "other": false} {
		if got := (&psFilter{labels: []string{label}}).passes(v, time.Now()); got != want {
			t.Errorf("%s: %t", label, got)
		}
	}
}
