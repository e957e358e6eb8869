package volumecmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/burstsim"
	"github.com/bee-hpc/bee/internal/burstsim/draw"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/spf13/cobra"
)

// BurstCommand returns the command `burst`.
func (a *Commands) BurstCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "burst", Short: "Predict what an I/O burst buffer is worth", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newBurstSimulateCommand())
	return c
}

// burstOptions are the flags of bee burst simulate.
type burstOptions struct {
	model       string
	set         []string
	seed        int64
	figures     string
	asCSV, json bool
}

// burstModels are the models by the names that --model takes; the first is the default.
func burstModels() []*burstsim.Model { return []*burstsim.Model{burstsim.Events(), burstsim.Paper()} }

func (a *Commands) newBurstSimulateCommand() *cobra.Command {
	o := burstOptions{model: burstModels()[0].Name}
	c := &cobra.Command{
		Use: "simulate", Short: "Compute throughput and cost of I/O with and without a burst buffer", Args: cobra.NoArgs,
		Long: burstHelp(),
		Example: "  bee burst simulate --set write=40GB --set every=10m --set bursts=6 --set io_nodes=1..8\n" +
			"  bee burst simulate --model paper --set nodes=20 --set line=135MB/s,1gbit\n" +
			"  bee burst simulate --model paper --figures figures",
		RunE: func(c *cobra.Command, _ []string) error { return a.burstSimulate(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.model, "model", o.model, "`model` to compute")
	f.StringArrayVar(&o.set, "set", nil, "`NAME=VALUES`: values of a setting, such as nodes=1..20 or hit=0%,50%; again for others")
	f.Int64Var(&o.seed, "seed", 1, "`number` from which the model events draws all that is random")
	f.StringVar(&o.figures, "figures", "", "`directory` to draw the study's four figures in, as SVG, PNG, CSV and JSON")
	f.BoolVar(&o.asCSV, "csv", false, "write comma-separated values")
	f.BoolVar(&o.json, "json", false, "write JSON")
	complete := func(flag string, words cobra.CompletionFunc) {
		if err := c.RegisterFlagCompletionFunc(flag, words); err != nil {
			panic(err) // there is no such flag: a mistake here
		}
	}
	complete("figures", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	complete("model", func(*cobra.Command, []string, string) (words []string, _ cobra.ShellCompDirective) {
		for _, m := range burstModels() {
			words = append(words, m.Name)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	})
	complete("set", func(*cobra.Command, []string, string) (words []string, _ cobra.ShellCompDirective) {
		m, err := burstModel(o.model)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, s := range m.Settings {
			words = append(words, s.Name+"=\t"+s.Meaning)
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	return c
}

func burstModel(name string) (*burstsim.Model, error) {
	var names []string
	for _, m := range burstModels() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return nil, &core.Error{Kind: core.Invalid, Op: "simulate by model", Object: fmt.Sprintf("%q", name), Err: errors.New("there is no such model"), Remedy: "Give --model with " + strings.Join(names, " or ") + "."}
}

// burstHelp is the help with the settings of each model.
func burstHelp() string {
	var b strings.Builder
	b.WriteString(`Compute what I/O with a burst buffer gives and costs, and what it does without one.

The model events simulates the requests of a job, one by one. Network interfaces,
switch, line and remote store are shared max-min fairly. Hit rates are results. The
job computes, then reads, then writes, and so on; I/O nodes drain what was written.
They are paid until everything is drained.

The model paper is that of the published study of I/O burst buffers for hybrid
clouds. The study's text and its formula differ in places:

`)
	for _, d := range burstsim.Differences() {
		b.WriteString("  " + d + "\n")
	}
	b.WriteString("\nEach setting takes values and ranges FIRST..LAST/STEP, separated by commas. All\ncombinations are computed.\n")
	for _, m := range burstModels() {
		fmt.Fprintf(&b, "\nSettings of the model %s:\n\n", m.Name)
		for _, s := range m.Settings {
			fmt.Fprintf(&b, "  %-28s %s\n", s.Name+"="+s.Default, s.Meaning)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func (a *Commands) burstSimulate(ctx context.Context, o burstOptions) error {
	if o.asCSV && (o.json || o.figures != "") {
		return &core.Error{Kind: core.Invalid, Op: "read flags of", Object: "bee burst simulate", Err: errors.New("--csv excludes --json and --figures"), Remedy: "Give one of them."}
	}
	m, err := burstModel(o.model)
	if err != nil {
		return err
	}
	sweep, err := m.Set(o.set)
	if err != nil {
		return err
	}
	if o.figures != "" {
		return a.drawBurst(ctx, sweep, o)
	}
	table, err := sweep.Run(o.seed, ctx.Err)
	if err != nil {
		return err
	}
	switch {
	case o.json:
		return a.WriteJSON(table)
	case o.asCSV:
		_, err := a.Stdout.Write(table.CSV())
		return err
	}
	heads, rows := table.Text()
	t := a.On(a.Stdout).List()
	for _, cells := range append([][]string{heads}, rows...) {
		row := make([]any, len(cells))
		for i, c := range cells {
			row[i] = c
		}
		t.Row(row...)
	}
	return t.Flush()
}

// drawBurst writes each figure in four formats, and prints the names of the files.
func (a *Commands) drawBurst(ctx context.Context, sweep *burstsim.Sweep, o burstOptions) error {
	figures, err := sweep.Figures(o.seed, ctx.Err)
	if err != nil {
		return err
	}
	if err := fsutil.MkdirAll(o.figures, 0o777); err != nil {
		return err
	}
	names := []string{}
	for _, f := range figures {
		picture, err := draw.PNG(f)
		if err != nil {
			return err
		}
		document, err := f.JSON()
		if err != nil {
			return err
		}
		for _, file := range []struct {
			kind string
			data []byte
		}{{"svg", draw.SVG(f)}, {"png", picture}, {"csv", f.CSV()}, {"json", document}} {
			name := filepath.Join(o.figures, o.model+"-"+f.Name+"."+file.kind)
			if err := fsutil.WriteFile(name, file.data, 0o666); err != nil {
				return err
			}
			names = append(names, name)
		}
	}
	if o.json {
		return a.WriteJSON(map[string]any{"files": names})
	}
	_, err = fmt.Fprintln(a.Stdout, strings.Join(names, "\n"))
	return err
}
