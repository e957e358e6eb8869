package main

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/spec"
)

// A filePage is a page of section 5 about one kind of file.
type filePage struct {
	name    string // of the page
	file    string // as in spec.KeyTable
	title   string
	text    string
	example string
	also    []string // as name(section)
}

var filePages = []filePage{
	{
		name: "beefile", file: "beefile", title: "description of a job for bee(1)",
		text: "A Beefile is a YAML file that describes one job: its image, its command, and the files that it needs and makes.\nbee-check(1) reports each mistake in one with its line.",
		example: `name: pi
image: docker.io/you/app:1.0
nodes: 2
inputs: [{from: ./input, to: /work}]
run: mpirun ./pi
outputs: [{from: /work/pi.txt, to: ./results}]`,
		also: []string{"bee-run(1)", "bee-check(1)", "bee-schema(1)", "bee-sites(5)"},
	},
	{
		name: "bee-sites", file: "sites", title: "machines on which bee(1) may run jobs",
		text: "The sites file is a YAML file that lists the sites of a user in order of priority.\nIts place is ~/.config/bee/sites.yaml, unless --sites or BEE_SITES names another.\nWithout it there is one site: this machine.",
		example: `sites:
  - {name: lab, provider: local, hosts: 4}
  - {name: rack, provider: ssh, hosts: ["n[1-9]"], scratch: /scratch/$USER}
  - {name: cluster, provider: slurm, login: login.example.org, scratch: /scratch/$USER, slot: 4h}`,
		also: []string{"bee-doctor(1)", "bee-plan(1)", "bee-schema(1)", "beefile(5)"},
	},
	{
		name: "bee-study", file: "study", title: "description of a comparison for bee-bench(1)",
		text: "A study file is a YAML file that compares one program in several environments.",
		also: []string{"bee-bench(1)", "bee-schema(1)", "beefile(5)"},
	},
}

// page makes each mapping a section, with its keys as tagged paragraphs.
func (p filePage) page(tables []spec.KeyTable) page {
	var b strings.Builder
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", paragraphs(p.text))
	if p.example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLE\n%s", verbatim(p.example))
	}
	for _, t := range tables {
		if t.File != p.file {
			continue
		}
		section := "KEYS"
		if t.At != "" {
			section = "KEYS OF " + t.At
		}
		fmt.Fprintf(&b, ".SH %q\n", section)
		for _, k := range t.Keys {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s.\n", escape(k.Key), lines(inline(k.Text)))
			if k.Default != "" {
				fmt.Fprintf(&b, "Default: %s.\n", inline(k.Default))
			}
		}
	}
	return page{name: p.name, section: "5", title: p.title, body: b.String(), also: p.also}
}
