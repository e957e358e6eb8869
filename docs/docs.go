// Package docs gives the program the pages that explain the keys of the Beefile and
// the sites file, so that editors show what the documents say.
package docs

import _ "embed"

// Beefile and Checkpointing explain the keys of a Beefile, Sites and Slurm those of
// a sites file, in tables of Markdown.
var (
	//go:embed reference/beefile.md
	Beefile string
	//go:embed how-to/checkpoints.md
	Checkpointing string
	//go:embed reference/sites.md
	Sites string
	//go:embed how-to/slurm.md
	Slurm string
)
