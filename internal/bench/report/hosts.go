package report

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// On adds the hosts of the measurements. Those of results that an earlier bee has made are not
// known.
func (r *Report) On(h record.Hosts) {
	if h.Schema > 0 {
		r.Hosts = &h
	}
}

type hostRow struct{ environment, runtime, hosts, measured, when string }

// hostRows are the environments with the hosts on which each was measured.
func (r *Report) hostRows() []hostRow {
	if r.Hosts == nil {
		return nil
	}
	var rows []hostRow
	for _, x := range r.Hosts.Exercised {
		measured := fmt.Sprint(x.Measured)
		if x.Failed > 0 {
			measured += fmt.Sprintf(", %d failed", x.Failed)
		}
		rows = append(rows, hostRow{x.Environment, x.Runtime, strings.Join(x.Hosts, ", "), measured, clock(x.First) + " to " + clock(x.Last)})
	}
	return rows
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// hostTexts are the settings of the machine on which bee ran, and the hosts that sites have
// granted for the whole study.
func (r *Report) hostTexts() []string {
	if r.Hosts == nil {
		return nil
	}
	h := &r.Hosts.Here
	var settings []string
	for _, x := range []struct{ name, value string }{
		{"microcode", h.Microcode},
		{"governor", strings.Join(h.Governors, ", ")},
		{"turbo", h.Turbo},
		{"simultaneous multithreading", h.SMT},
		{"isolated cores", h.Isolated},
		{"NUMA nodes", h.NUMA},
		{"transparent huge pages", h.HugePages},
		{"boot", h.Boot},
		{"control group", h.Cgroup},
	} {
		if x.value != "" {
			settings = append(settings, x.name+" "+x.value)
		}
	}
	var texts []string
	if len(settings) > 0 {
		texts = append(texts, "The machine on which bee ran: "+strings.Join(settings, "; ")+".")
	}
	var open []string
	for name, text := range h.Mitigations {
		if strings.HasPrefix(text, "Vulnerable") {
			open = append(open, name)
		}
	}
	slices.Sort(open)
	if n := len(h.Mitigations); n > 0 && len(open) > 0 {
		texts = append(texts, "Its kernel mitigates nothing against "+strings.Join(open, ", ")+".")
	} else if n > 0 {
		texts = append(texts, "Its kernel mitigates what it knows of its processors.")
	}
	for _, x := range r.Hosts.Exercised {
		if x.VMCommand != "" {
			texts = append(texts, fmt.Sprintf("Virtual machines of %s were started by: %s", x.Environment, x.VMCommand))
		}
	}
	for _, x := range r.Hosts.Held {
		var names []string
		for _, host := range x.Hosts {
			names = append(names, host.Name)
		}
		text := fmt.Sprintf("Site %s held allocation %s for all measurements", x.Site, x.Allocation)
		if len(names) > 0 {
			text += " on " + strings.Join(names, ", ")
		}
		if !x.Ends.IsZero() {
			text += ", until " + clock(x.Ends) + " at most"
		}
		texts = append(texts, text+".")
	}
	return texts
}

// hosts writes the hosts into the page.
func (r *Report) hosts(b *strings.Builder) {
	rows, texts := r.hostRows(), r.hostTexts()
	if len(rows)+len(texts) == 0 {
		return
	}
	e := html.EscapeString
	b.WriteString("<h2>Hosts</h2>\n")
	for _, text := range texts {
		fmt.Fprintf(b, "<p>%s</p>\n", e(text))
	}
	if len(rows) == 0 {
		return
	}
	b.WriteString("<table><tr><th>environment</th><th>runtime</th><th>hosts</th><th>measurements</th><th>when</th></tr>\n")
	for _, x := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td>%s</td><td class=\"n\">%s</td><td>%s</td></tr>\n", e(x.environment), e(x.runtime), e(x.hosts), e(x.measured), e(x.when))
	}
	b.WriteString("</table>\n")
}

// redactHosts drops names and other marks of machines, and returns the names of hosts and sites.
func (r *Report) redactHosts() (names []string) {
	if r.Hosts == nil {
		return nil
	}
	h := *r.Hosts
	names = append(names, h.Here.Name)
	h.Here.Name, h.Here.Boot, h.Here.Cgroup = "", "", ""
	for _, x := range h.Held {
		names = append(names, x.Site, x.Owner)
		for _, host := range x.Hosts {
			names = append(names, host.Name)
		}
	}
	h.Held, h.Exercised = nil, slices.Clone(h.Exercised)
	for i := range h.Exercised {
		names = append(names, h.Exercised[i].Hosts...)
		h.Exercised[i].Hosts, h.Exercised[i].VMCommand = nil, ""
	}
	r.Hosts = &h
	return names
}
