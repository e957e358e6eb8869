package recordcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/report/page"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// ReportCommand returns the command `report`.
func (a *Commands) ReportCommand() *cobra.Command {
	var out string
	var markdown bool
	var choice gridChoice
	c := &cobra.Command{
		Use: "report RUN", Short: "Write one page about a run or an array, to keep or to send", Args: cobra.ExactArgs(1), ValidArgsFunction: a.RunsTo(state.ToSee),
		Long: `Write one HTML file about a run, which needs no network and runs no script. It has what
bee show prints, and a time line of the attempts, the names of the outputs, the end of
the log and the job as it was submitted. PNG files among the outputs are shown. Names of
hosts and variables of the job are in it.

Of an array, the page has a grid of its cases by two parameters, marked by state and by
a metric, and a plot of that metric.

With --markdown, write the same for the summary of a CI job. Of an array, that is a list
of its cases by how they ended.`,
		Example: "  bee report lysozyme -o lysozyme.html\n  bee report --markdown lysozyme > summary.md\n  bee report --by temperature,seed --metric energy model -o model.html",
		RunE: func(c *cobra.Command, args []string) error {
			var b bytes.Buffer
			if err := a.report(c.Context(), args[0], choice, markdown, &b); err != nil {
				return err
			}
			if out == "" {
				_, err := a.Stdout.Write(b.Bytes())
				return err
			}
			if err := fsutil.WriteFile(out, b.Bytes(), 0o600); err != nil {
				return &core.Error{Kind: core.Invalid, Op: "write the report to", Object: out, Err: err, Remedy: "Name a file in a directory of yours that exists."}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "write to this `file`, which only you can read (default standard output)")
	c.Flags().BoolVar(&markdown, "markdown", false, "write Markdown instead of HTML")
	c.Flags().StringVar(&choice.by, "by", "", "of an array: the `parameters` across and down, such as temperature,seed (default the first two by name)")
	c.Flags().StringVar(&choice.metric, "metric", "", "of an array: the metric's `name` (default the first by name)")
	return c
}

func (a *Commands) report(ctx context.Context, word string, choice gridChoice, markdown bool, w io.Writer) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	array, err := s.Store.Arrays().Find(ctx, word, state.ToSee)
	if err != nil {
		return err
	}
	if array.ID != "" {
		return reportArray(ctx, a, s, array, choice, markdown, w)
	}
	run, err := s.Store.FindRun(ctx, word, state.ToSee)
	if err != nil {
		return err
	}
	if choice.chosen() {
		return &core.Error{Kind: core.Invalid, Op: "write the page of", Object: run.ID, Err: errors.New("it is a run, and --by and --metric are for arrays"), Remedy: "Leave the flags out, or name an array."}
	}
	p, err := pageOf(ctx, s, run)
	if err != nil {
		return err
	}
	end, err := endOfOutput(ctx, s, run)
	end.show(p, err)
	if markdown {
		return p.Markdown(w)
	}
	addPictures(p)
	return p.HTML(w)
}

// pageOf is all that there is to show of a run, as a page, but for its log.
func pageOf(ctx context.Context, s *workspace.Session, run state.Run) (*page.Page, error) {
	v, err := runview.Of(ctx, s, run)
	if err != nil {
		return nil, err
	}
	attempts, err := s.Store.Attempts(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p := &page.Page{
		ID: v.ID, Name: v.Name, State: string(v.State), Meaning: report.StateText(run), Why: v.Why, Began: v.Created, Ended: now,
		TimeLine: report.TimeLine(run, attempts, now), Version: s.Workspace.Version, Made: now,
	}
	if v.Ended != nil {
		p.Ended = *v.Ended
	}
	var blocks pageBlocks
	blocks.Gap() // begins the first
	WriteRun(&blocks, v)
	p.Blocks = blocks
	p.Time = usesOf(v.Time)
	for _, c := range v.Checkpoints {
		p.Checkpoints = append(p.Checkpoints, c.Taken)
	}
	all, measuredErr := state.ReadMeasured(s.Store.RunDir(run.ID))
	if all.Percent != nil {
		p.Curves = append(p.Curves, page.Curve{Name: "Progress in percent", Points: all.Percent.Points})
	}
	for _, name := range slices.Sorted(maps.Keys(all.Metrics)) {
		if series := all.Metrics[name]; series != nil {
			p.Curves = append(p.Curves, page.Curve{Name: "Metric " + name, Points: series.Points})
		}
	}
	samples, samplesErr := state.ReadSamples(s.Store.RunDir(run.ID))
	p.Plots = usePlots(samples.Points, func(rank int) string { return hostsOfRank(v, rank) })
	for _, o := range workspace.OutputsAtHome(attempts) {
		p.Outputs = append(p.Outputs, page.Output{To: o.To, Names: o.Names, More: max(o.Count-len(o.Names), 0)})
	}
	problem := func(err error) {
		if err != nil {
			p.Problems = append(p.Problems, err.Error())
		}
	}
	problem(measuredErr)
	problem(samplesErr)
	text, err := beefileOf(run)
	p.Beefile = string(text)
	problem(err)
	return p, ctx.Err()
}

// usesOf are uses of time for a page, the longest first.
func usesOf(seconds map[report.Use]float64) (list []page.Use) {
	for _, u := range report.Uses() {
		if took := seconds[u.On]; took >= 0.001 {
			list = append(list, page.Use{On: u.On, Text: u.Text, Took: console.Seconds(took), Seconds: took})
		}
	}
	slices.SortStableFunc(list, func(x, y page.Use) int { return cmp.Compare(y.Seconds, x.Seconds) })
	return list
}

// addPictures puts the pictures among the outputs on a page, and which of them are left out.
func addPictures(p *page.Page) {
	for _, o := range p.Outputs {
		if spec.IsRemote(o.To) {
			continue
		}
		for _, name := range o.Names {
			if !strings.EqualFold(filepath.Ext(name), ".png") {
				continue
			}
			var picture page.Picture
			err := fmt.Errorf("at most %d pictures are shown", page.MostPictures)
			if len(p.Pictures) < page.MostPictures {
				var file []byte
				if file, err = fsutil.ReadFile(o.To, name, page.MostPicture); err == nil {
					picture, err = page.NewPicture(name, file)
				}
			}
			if err != nil {
				p.Problems = append(p.Problems, "picture "+name+": "+err.Error())
				continue
			}
			p.Pictures = append(p.Pictures, picture)
		}
	}
}

// show puts the end of a log on a page, and why there is no more of it.
func (l *logEnd) show(p *page.Page, err error) {
	if l.kept != nil {
		p.Log, p.LogCut = l.text()
		p.LogOf = fmt.Sprintf("attempt %d", l.attempt)
	}
	if err != nil {
		p.Problems = append(p.Problems, err.Error())
	}
}

// pageBlocks are the rows of bee show in blocks.
type pageBlocks []page.Block

// Row implements rows.
func (b *pageBlocks) Row(values ...any) {
	var r page.Row
	for i, v := range values {
		if c, is := v.(output.Cell); is {
			v = c.Text
		}
		if i == 0 {
			r.Name = fmt.Sprint(v)
		} else {
			r.Value = fmt.Sprint(v)
		}
	}
	last := len(*b) - 1
	(*b)[last] = append((*b)[last], r)
}

// Gap implements rows.
func (b *pageBlocks) Gap() { *b = append(*b, nil) }

// What a page has of a log at most.
const (
	logBytes = 64 << 10
	logLines = 200
)

// logEnd keeps the end of what is written to it. Its memory is bounded, though lines and
// logs are not.
type logEnd struct {
	kept    []byte
	cut     bool
	attempt int // whose log it is
}

// Write implements io.Writer.
func (l *logEnd) Write(piece []byte) (int, error) {
	l.kept = append(l.kept, piece[max(len(piece)-logBytes, 0):]...)
	l.cut = l.cut || len(piece) > logBytes
	if len(l.kept) > 2*logBytes {
		l.drop(len(l.kept) - logBytes)
	}
	return len(piece), nil
}

func (l *logEnd) drop(n int) {
	l.kept, l.cut = append(l.kept[:0], l.kept[n:]...), true
}

// text returns the last lines, and whether there are more. The first may be a part of one.
func (l *logEnd) text() (text string, cut bool) {
	if len(l.kept) > logBytes {
		l.drop(len(l.kept) - logBytes)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(l.kept), "\n"), "\n")
	if len(lines) > logLines {
		lines, l.cut = lines[len(lines)-logLines:], true
	}
	return strings.Join(lines, ""), l.cut
}
