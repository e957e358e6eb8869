package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// addExamples gives each command its example, which help and docs/reference/commands.md
// show.
func addExamples(root *cobra.Command) {
	for path, example := range examples {
		words := strings.Fields(path)
		if c, rest, err := root.Find(words); err == nil && len(rest) == 0 && c != root {
			c.Example = "  " + strings.ReplaceAll(example, "\n", "\n  ")
		}
	}
}

// examples are by the path of a command without bee.
var examples = map[string]string{ //nolint:gochecknoglobals // a constant
	"checkpoint":            "bee checkpoint lysozyme",
	"exec":                  "bee exec -t pi -- bash\nbee exec --node 1 pi -- cat /work/log",
	"logs":                  "bee logs -f pi\nbee logs --controller pi",
	"move":                  "bee move pi --site rack",
	"plan":                  "bee plan job.yaml",
	"ps":                    "bee ps --all --limit 20",
	"resume":                "bee resume pi --site rack\nbee resume --from ann@archive.example.org:bee pi",
	"rm":                    "bee rm --finished",
	"run":                   "bee run job.yaml\nbee run -d --site rack -n 4 job.yaml",
	"show":                  "bee show pi",
	"ssh":                   "bee ssh melt 1 -- uptime",
	"stop":                  "bee stop pi",
	"sweep":                 "bee sweep --dry-run",
	"check":                 "bee check job.yaml",
	"convert":               "bee convert old.json -o job.yaml",
	"data load":             "bee data load --size 50G inputs.img ./inputs",
	"data ls":               "bee data ls inputs.img",
	"data unload":           "bee data unload --path '*.log' inputs.img ./logs",
	"image build":           "bee image build --tag my-app:1.0 job.yaml",
	"image import":          "bee image import ./app.tar",
	"image ls":              "bee image ls",
	"image prune":           "bee image prune",
	"image pull":            "bee image pull docker.io/library/debian:12",
	"image push":            "bee image push my-app:1.0 registry.example.org/you/app:1.0",
	"image rm":              "bee image rm my-app:1.0",
	"image save":            "bee image save my-app:1.0 -o app.tar",
	"image show":            "bee image show my-app:1.0",
	"schema":                "bee schema beefile > beefile.schema.json",
	"doctor":                "bee doctor",
	"emulate dial":          "bee emulate dial pi 10.90.0.1:22",
	"emulate exec":          "bee emulate exec pi lab-1 uptime",
	"emulate hosts":         "bee emulate hosts pi",
	"emulate kill":          "bee emulate kill pi lab-1",
	"emulate link":          "bee emulate link pi lab-1 down",
	"fabric stats":          "bee fabric stats melt",
	"vm build":              "bee vm build",
	"vm bundle":             "bee vm bundle ./qemu",
	"vm console":            "bee vm console melt 1",
	"vm image build":        "bee vm image build --tag lab-guest:1 --package docker-compose",
	"vm image ls":           "bee vm image ls",
	"vm image pull":         "bee vm image pull registry.example.org/you/guest:1",
	"vm image push":         "bee vm image push lab-guest:1 registry.example.org/you/guest:1",
	"vm image rm":           "bee vm image rm lab-guest:1",
	"vm image show":         "bee vm image show lab-guest:1",
	"vm restore":            "bee vm restore ./saved",
	"vm shell":              "bee vm shell melt -- docker ps",
	"vm snapshot":           "bee vm snapshot melt ./saved",
	"version":               "bee version",
	"completion bash":       "bee completion bash > ~/.local/share/bash-completion/completions/bee",
	"completion fish":       "bee completion fish > ~/.config/fish/completions/bee.fish",
	"completion zsh":        "bee completion zsh > ~/.zfunc/_bee",
	"completion powershell": "bee completion powershell > bee.ps1",
}
