package runcmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestVerdict predicts for a slow line, for one as fast as the disk, and without what the job writes. The
// verdict is in the record of the site that would be used.
func TestVerdict(t *testing.T) {
	write := spec.Expect{Write: 1 << 30, Every: time.Minute}
	for name, c := range map[string]struct {
		expect    spec.Expect
		far       float64
		verdict   string
		predicted bool
	}{
		"a slow line": {write, 10e6, "use", true},
		"a fast line": {write, 1e9, "do_not_use", false},
		"no expect":   {spec.Expect{}, 10e6, "no_prediction", false},
	} {
		job := &spec.Job{Volume: spec.Volume{Kind: spec.VolumeBurst, Remote: "./far", Expect: c.expect}}
		v, err := verdict(job, line{roundTrip: time.Millisecond, one: c.far, many: c.far}, 500e6, 10<<30, 1, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if v.Verdict != c.verdict || (v.Prediction != nil) != c.predicted || !strings.HasPrefix(v.text(), "Burst buffer: ") {
			t.Errorf("%s: %+v\n%s", name, v, v.text())
		}
		if p := v.Prediction; p != nil && (p.Bursts != fewBursts || p.Seconds >= p.DirectSeconds || p.WaitSeconds >= p.DirectWaitSeconds || p.DrainSeconds <= 0 || p.EnoughBytes <= 0 || p.Cost <= 0) {
			t.Errorf("%s: %+v", name, p)
		}
		raw, err := json.Marshal(planned([]control.Prospect{{Site: "away"}, {Site: "here", Usable: true}}, 1, v))
		var got []struct {
			Site        string
			BurstBuffer *struct {
				Verdict    string
				Prediction *struct{ Bursts int }
			} `json:"burst_buffer"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &got)
		}
		if err != nil || len(got) != 2 || got[0].BurstBuffer != nil || got[1].Site != "here" || got[1].BurstBuffer.Verdict != c.verdict || (got[1].BurstBuffer.Prediction != nil) != c.predicted {
			t.Errorf("%s: %v, %s", name, err, raw)
		}
	}
}
