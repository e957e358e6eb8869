// Package docs gives the program the pages that explain the keys of the Beefile and
// the sites file, so that editors show what the documents say.
package docs

import _ "embed"

// Beefile and Checkpointing explain the keys of a Beefile, Sites and Slurm those of
// a sites file, in tables of Markdown.
var (
	//go:embed beefile.md
	Beefile string
	//go:embed checkpointing.md
	Checkpointing string
	//go:embed sites.md
	Sites string
	//go:embed slurm.md
	Slurm string
)
