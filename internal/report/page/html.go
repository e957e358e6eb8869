package page

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/report"
)

// Style has no colour that alone means something: states are words, and uses of time are
// letters.
const Style = `:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--line:#767676;--band:#e3ecf7;--code:#f3f3f3;--good:#dcefdc;--bad:#f7d9d9;--hold:#f7ecc4;--l1:#f4f8fd;--l2:#dfeaf7;--l3:#c9dcf0;--l4:#b2cdea;--l5:#9bbee3}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#161616;--line:#8a8a8a;--band:#22303f;--code:#222;--good:#1d3b24;--bad:#53222a;--hold:#4a3d12;--l1:#1a222b;--l2:#20303f;--l3:#263e55;--l4:#2b4c6b;--l5:#305a82}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:64rem;margin:1rem auto;padding:0 1rem;overflow-wrap:anywhere}
h1{font-size:1.4rem}h2{font-size:1.15rem;margin:1.6rem 0 .4rem}h3{font-size:1rem;margin:.8rem 0 .2rem}
p.state{border:2px solid var(--line);padding:.5rem .7rem}
table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top;font-weight:400;unicode-bidi:isolate}
tr>th[scope=row]{width:11rem;font-weight:600}thead th{font-weight:600}
td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
pre{background:var(--code);padding:.5rem;white-space:pre-wrap;font:13px/1.4 ui-monospace,monospace;max-height:40rem;overflow:auto}
svg{display:block;width:100%;height:26px;background:var(--code);margin:.1rem 0 .5rem}
svg.curve{height:8rem}svg polyline{fill:none;stroke:var(--ink);stroke-width:2;vector-effect:non-scaling-stroke}
svg rect{fill:var(--band);stroke:var(--line)}svg text{fill:var(--ink);font:13px system-ui,sans-serif}
p.ends{display:flex;justify-content:space-between;gap:1rem;margin:0;font-size:.85rem}
svg.plot{height:14rem}svg circle{fill:none;stroke:var(--ink)}
figure{margin:.8rem 0}img{max-width:100%;height:auto;background:#fff}
.wide{overflow-x:auto}table.grid{width:auto}table.grid th,table.grid td{border:1px solid var(--line);text-align:center;white-space:nowrap}.letter{display:inline-block;min-width:1.6rem;text-align:center;border:1px solid var(--line)}
.failed{background:var(--bad)}.stopped,.aside{background:var(--code)}.suspended{background:var(--hold)}.running{background:var(--band)}.succeeded{background:var(--good)}
.l1{background:var(--l1)}.l2{background:var(--l2)}.l3{background:var(--l3)}.l4{background:var(--l4)}.l5{background:var(--l5)}
footer{margin:2rem 0 1rem;font-size:.85rem}
@media(max-width:40rem){table.rows tr,table.rows th,table.rows td{display:block;width:100%}table.rows th{border-bottom:0;padding-bottom:0}tr>th[scope=row]{width:auto}}
@media print{body{max-width:none;margin:0}pre{max-height:none}}`

// policy forbids the page everything but its own style, and pictures that are in it, if it has any: no
// script, frame, form or connection, whatever a mistake in this package might write.
func policy(pictures bool) string {
	sum, img := sha256.Sum256([]byte(Style)), ""
	if pictures {
		img = "img-src data:; "
	}
	return "default-src 'none'; " + img + "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

// e is a text in HTML, between tags or in a quoted attribute.
func e(text string) string { return html.EscapeString(shown(text)) }

// HTML writes the page as one file that fetches nothing.
func (p *Page) HTML(w io.Writer) error {
	var b strings.Builder
	begin(&b, p.title(), len(p.Pictures) > 0)
	p.head(&b)
	p.facts(&b)
	p.outputs(&b)
	p.logEnd(&b)
	p.job(&b)
	end(&b, p.Version, p.Made)
	_, err := io.WriteString(w, b.String())
	return err
}

// begin writes what a file has before its content, which may have pictures.
func begin(b *strings.Builder, title string, pictures bool) {
	fmt.Fprintf(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<meta http-equiv=\"Content-Security-Policy\" content=\"%s\"/>\n<meta name=\"referrer\" content=\"no-referrer\"/><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>%s</title>\n<style>%s</style></head>\n<body><main>\n",
		policy(pictures), e(title), Style)
}

// end writes what a file has after its content.
func end(b *strings.Builder, version string, made time.Time) {
	fmt.Fprintf(b, "</main><footer>Written by bee %s at %s. Times are of zone %s.</footer></body></html>\n", e(version), e(made.Local().Format(time.DateTime)), e(made.Local().Format("MST")))
}

// Part writes the page without its outputs and its log, as a part of another page.
func (p *Page) Part(w io.Writer) error {
	var b strings.Builder
	p.head(&b)
	p.facts(&b)
	p.job(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// head writes which run it is, and its state.
func (p *Page) head(b *strings.Builder) {
	fmt.Fprintf(b, "<h1>Run <bdi>%s</bdi> (<bdi>%s</bdi>)</h1>\n<p class=\"state\"><strong>%s.</strong> %s</p>\n", e(p.Name), e(p.ID), e(p.State), e(p.Meaning))
	if p.Why != "" {
		fmt.Fprintf(b, "<p>Reason: <bdi>%s</bdi></p>\n", e(p.Why))
	}
	for _, problem := range p.Problems {
		fmt.Fprintf(b, "<p>Missing on this page: <bdi>%s</bdi></p>\n", e(problem))
	}
}

// facts writes figures and tables.
func (p *Page) facts(b *strings.Builder) {
	p.time(b)
	p.timeLine(b)
	p.curves(b)
	p.plots(b)
	for i, block := range p.Blocks {
		p.block(b, i, block)
	}
}

// logEnd writes the end of the log.
func (p *Page) logEnd(b *strings.Builder) {
	b.WriteString("<h2>End of the log</h2>\n")
	switch {
	case p.LogOf == "":
		b.WriteString("<p>Nothing was printed.</p>\n")
	case p.LogCut:
		fmt.Fprintf(b, "<p>The last lines of %s; <code>bee logs</code> prints all of them.</p>\n", e(p.LogOf))
	default:
		fmt.Fprintf(b, "<p>All that %s printed.</p>\n", e(p.LogOf))
	}
	if p.LogOf != "" {
		fmt.Fprintf(b, "<pre tabindex=\"0\" aria-label=\"end of the log\">%s</pre>\n", e(p.Log))
	}
}

// job writes the job as it was submitted.
func (p *Page) job(b *strings.Builder) {
	if p.Beefile != "" {
		fmt.Fprintf(b, "<h2>Job as submitted</h2>\n<pre tabindex=\"0\" aria-label=\"job as submitted\">%s</pre>\n", e(p.Beefile))
	}
}

// block writes a table. All but the first have their first row as a title.
func (p *Page) block(b *strings.Builder, i int, block Block) {
	title := "Run"
	if i > 0 && len(block) > 0 {
		title = block[0].Name
		fmt.Fprintf(b, "<h2>%s</h2>\n", e(title))
		if block[0].Value != "" {
			fmt.Fprintf(b, "<p>%s</p>\n", e(block[0].Value))
		}
		block = block[1:]
	} else {
		fmt.Fprintf(b, "<h2>%s</h2>\n", title)
	}
	if len(block) == 0 {
		return
	}
	fmt.Fprintf(b, "<table class=\"rows\" aria-label=\"%s\"><tbody>\n", e(title))
	for _, r := range block {
		fmt.Fprintf(b, "<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n", e(strings.TrimSpace(r.Name)), e(r.Value))
	}
	b.WriteString("</tbody></table>\n")
}

// time writes the uses of the run's time, with the letters of the time line.
func (p *Page) time(b *strings.Builder) {
	if len(p.Time) == 0 {
		return
	}
	b.WriteString("<h2>Time</h2>\n")
	writeUses(b, p.Time)
}

// writeUses writes uses of time as a table, with the letters of time lines.
func writeUses(b *strings.Builder, list []Use) {
	b.WriteString("<table><thead><tr><th scope=\"col\">mark</th><th scope=\"col\">use</th><th scope=\"col\">time</th><th scope=\"col\">share</th></tr></thead><tbody>\n")
	for _, u := range list {
		fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%.0f %%</td></tr>\n", letterOf(u.On), e(u.Text), e(u.Took), shareOf(u, list))
	}
	b.WriteString("</tbody></table>\n")
}

// least is how wide a part must be to have its letter, in percent.
const least = 3

// timeLine draws a bar for each attempt. The bars have no text of a job; their places are
// percentages, so that letters stay legible on a narrow screen.
func (p *Page) timeLine(b *strings.Builder) {
	span := p.Ended.Sub(p.Began)
	if len(p.TimeLine) == 0 || span <= 0 {
		return
	}
	at := func(t time.Time) float64 { return 100 * min(max(t.Sub(p.Began).Seconds()/span.Seconds(), 0), 1) }
	words := map[report.Use]string{}
	for _, u := range report.Uses() {
		words[u.On] = u.Text
	}
	b.WriteString("<h2>Time line</h2>\n<p>One bar for each attempt. Its parts are in their usual order, with the marks of the table above.</p>\n")
	for _, s := range p.TimeLine {
		var parts []string
		for _, part := range s.Parts {
			parts = append(parts, words[part.On]+" "+part.Took.Round(time.Millisecond).String())
		}
		fmt.Fprintf(b, "<p class=\"ends\"><span>attempt %d on <bdi>%s</bdi></span></p>\n<svg role=\"img\" aria-label=\"attempt %d: %s\">", s.Attempt, e(s.Site), s.Attempt, e(strings.Join(parts, ", ")))
		from := at(s.Began)
		for i, part := range s.Parts {
			width := min(100*part.Took.Seconds()/span.Seconds(), 100-from)
			if width <= 0 {
				continue
			}
			fmt.Fprintf(b, "<g><title>%s</title><rect x=\"%.3f%%\" y=\"1\" width=\"%.3f%%\" height=\"24\"/>", e(parts[i]), from, width)
			if width >= least {
				fmt.Fprintf(b, "<text x=\"%.3f%%\" y=\"18\" text-anchor=\"middle\">%s</text>", from+width/2, letterOf(part.On))
			}
			b.WriteString("</g>")
			from += width
		}
		b.WriteString("</svg>\n")
	}
	if len(p.Checkpoints) > 0 {
		fmt.Fprintf(b, "<p class=\"ends\"><span>checkpoints</span></p>\n<svg role=\"img\" aria-label=\"times of %d checkpoints\">", len(p.Checkpoints))
		for _, t := range p.Checkpoints {
			fmt.Fprintf(b, "<text x=\"%.3f%%\" y=\"18\" text-anchor=\"middle\">◆</text>", at(t))
		}
		b.WriteString("</svg>\n")
	}
	fmt.Fprintf(b, "<p class=\"ends\"><span>%s</span><span>%s</span></p>\n", e(p.Began.Local().Format(time.DateTime)), e(p.Ended.Local().Format(time.DateTime)))
}

// outputs lists what was collected. No name is a link: a job has chosen it.
func (p *Page) outputs(b *strings.Builder) {
	b.WriteString("<h2>Outputs</h2>\n")
	if len(p.Outputs) == 0 {
		b.WriteString("<p>None are collected.</p>\n")
	}
	for _, o := range p.Outputs {
		fmt.Fprintf(b, "<p>In <bdi>%s</bdi>:</p>\n<ul>\n", e(o.To))
		for _, name := range o.Names {
			fmt.Fprintf(b, "<li><bdi>%s</bdi></li>\n", e(name))
		}
		if o.More > 0 {
			fmt.Fprintf(b, "<li>and %d more</li>\n", o.More)
		}
		b.WriteString("</ul>\n")
	}
	p.pictures(b)
}
