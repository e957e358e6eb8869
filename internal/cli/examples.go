package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// addExamples gives each command below c its example, which help and
// docs/reference/commands.md show, unless it has one.
func addExamples(c *cobra.Command) {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	if example := examples[path]; example != "" && c.Example == "" {
		c.Example = "  " + strings.ReplaceAll(example, "\n", "\n  ")
	}
	for _, s := range c.Commands() {
		addExamples(s)
	}
}

// examples are by the path of a command without bee.
var examples = map[string]string{
	"checkpoint":            "bee checkpoint lysozyme",
	"plan":                  "bee plan job.yaml",
	"show":                  "bee show pi\nbee show --beefile pi > pi.yaml",
	"stop":                  "bee stop pi",
	"sweep":                 "bee sweep --dry-run",
	"cloud ls":              "bee cloud ls --site aws",
	"cloud rm":              "bee cloud rm",
	"cloud policy":          "bee cloud policy > bee-policy.json",
	"bench check":           "bee bench check study.yaml",
	"check":                 "bee check job.yaml\nbee check ~/.config/bee/sites.yaml",
	"convert":               "bee convert old.json -o job.yaml",
	"data ls":               "bee data ls inputs.img",
	"image build":           "bee image build --tag my-app:1.0 job.yaml",
	"image ls":              "bee image ls",
	"image prune":           "bee image prune",
	"image pull":            "bee image pull docker.io/library/debian:12",
	"image push":            "bee image push my-app:1.0 registry.example.org/you/app:1.0",
	"image rm":              "bee image rm my-app:1.0",
	"image show":            "bee image show my-app:1.0",
	"schema":                "bee schema beefile > beefile.schema.json",
	"doctor":                "bee doctor",
	"emulate exec":          "bee emulate exec pi lab-1 uptime",
	"emulate hosts":         "bee emulate hosts pi",
	"emulate kill":          "bee emulate kill pi lab-1",
	"emulate link":          "bee emulate link pi lab-1 down",
	"fabric stats":          "bee fabric stats melt",
	"rdma stats":            "bee rdma stats exchange",
	"vm image ls":           "bee vm image ls",
	"vm image pull":         "bee vm image pull registry.example.org/you/guest:1",
	"vm image push":         "bee vm image push lab-guest:1 registry.example.org/you/guest:1",
	"vm image rm":           "bee vm image rm lab-guest:1",
	"vm image show":         "bee vm image show lab-guest:1",
	"version":               "bee version",
	"completion bash":       "bee completion bash > ~/.local/share/bash-completion/completions/bee",
	"completion fish":       "bee completion fish > ~/.config/fish/completions/bee.fish",
	"completion zsh":        "bee completion zsh > ~/.zfunc/_bee",
	"completion powershell": "bee completion powershell > bee.ps1",
}
