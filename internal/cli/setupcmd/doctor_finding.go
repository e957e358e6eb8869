package setupcmd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
)

// standing is how a thing that the doctor looked at stands.
type standing string

const (
	works   standing = "ok"
	absent  standing = "absent"  // needed only for something that a user may not want
	risky   standing = "warning" // works, with a drawback
	untried standing = "untried" // found out when it is used first
	missing standing = "missing" // needed
)

// mark is what stands before a line.
func (s standing) mark() string {
	switch s {
	case works:
		return "ok"
	case absent:
		return "-"
	case risky:
		return "!"
	case untried:
		return "?"
	}
	return "no"
}

func (s standing) style() output.Style {
	switch s {
	case works:
		return output.Good
	case missing:
		return output.Bad
	case risky, untried:
		return output.Wait
	}
	return output.Faint
}

// finding is one line of the doctor's report.
type finding struct {
	Area   string
	Name   string
	Status standing
	Detail string
	Remedy string
}

// MarshalJSON implements json.Marshaler: docs/reference/json.md has the fields.
func (f finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Area    string   `json:"area"`
		Name    string   `json:"name"`
		OK      bool     `json:"ok"`
		Status  standing `json:"status"`
		Detail  string   `json:"detail"`
		Remedy  string   `json:"remedy,omitempty"`
		Untried bool     `json:"untried,omitempty"`
	}{f.Area, f.Name, f.Status == works, f.Status, f.Detail, f.Remedy, f.Status == untried})
}

// diagnosis is what `bee doctor --json` writes.
type diagnosis struct {
	Runtime  string    `json:"runtime"` // what auto would choose, or ""
	Why      string    `json:"why"`
	Verdict  verdict   `json:"verdict"`
	Findings []finding `json:"findings"`
	// RDMA are this machine's RDMA devices.
	RDMA []core.RDMADevice `json:"rdma,omitempty"`
}

// verdict is what a diagnosis comes to.
type verdict string

const (
	ready      verdict = "ready"
	partly     verdict = "partly" // jobs run, and something that is needed is missing
	notReady   verdict = "not_ready"
	areaOfSite         = "site"
)

// judge returns the verdict, with the sites that can be used and what is missing.
func (d *diagnosis) judge() (v verdict, sites, lacking []string) {
	for _, f := range d.Findings {
		switch {
		case f.Status == missing && f.Area == "runtime":
			if !slices.Contains(lacking, "a runtime") {
				lacking = append(lacking, "a runtime")
			}
		case f.Status == missing:
			lacking = append(lacking, f.Area+" "+f.Name)
		case f.Area == areaOfSite:
			sites = append(sites, f.Name)
		}
	}
	switch {
	case len(sites) == 0: // a runtime here is of no use then
		return notReady, sites, lacking
	case len(lacking) > 0:
		return partly, sites, lacking
	}
	return ready, sites, lacking
}

// printDiagnosis prints a diagnosis, and fails where no site can be used.
func (a *Commands) printDiagnosis(d diagnosis, asJSON bool) error {
	write := a.writeDiagnosis
	if asJSON {
		write = func(d diagnosis) error { return a.WriteJSON(d) }
	}
	d.Verdict, _, _ = d.judge()
	if err := write(d); err != nil {
		return err
	}
	if d.Verdict == notReady {
		return console.Exit(console.ExitUnsupported)
	}
	return nil
}

func (a *Commands) writeDiagnosis(d diagnosis) error {
	w := a.On(a.Stdout).Prose()
	for _, f := range d.Findings {
		w.Row(output.Cell{Text: f.Status.mark(), Style: f.Status.style()}, f.Area, f.Name, f.Detail)
		if f.Status != works && f.Status != untried && f.Remedy != "" {
			w.Row("", "", "", "→ "+f.Remedy)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Stdout, "\n"+output.Printable(d.text()))
	return err
}

// text is the verdict as people read it.
func (d *diagnosis) text() string {
	v, sites, lacking := d.judge()
	text := "runtime: " + d.Why + ".\n"
	if d.Runtime != "" {
		text = fmt.Sprintf("runtime: auto would choose %s: %s.\n", d.Runtime, d.Why)
	}
	where := "jobs run on " + strings.Join(sites, ", ")
	switch v {
	case ready:
		return text + "verdict: ready: " + where + ". Nothing that is needed is missing."
	case partly:
		return text + "verdict: partly ready: " + where + ". Missing: " + strings.Join(lacking, ", ") + "."
	}
	if text += "verdict: not ready: no site can be used."; len(lacking) > 0 {
		text += " Missing: " + strings.Join(lacking, ", ") + "."
	}
	return text
}
