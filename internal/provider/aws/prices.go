package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// jsonType is the type of bodies of AWS's JSON protocol.
const jsonType = "application/x-amz-json-1."

// mostPages bounds the pages of an answer about prices.
const mostPages = 20

// Prices implements cloud.API: the price list has those of machines on demand, and the market those of spot machines.
func (a *account) Prices(ctx context.Context, offers []cloud.Offer) (map[string]driver.Price, error) {
	settings, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	region, currency := settings.config.Region, "USD"
	if isChina(region) {
		currency = "CNY"
	}
	var spotTypes []string
	onDemand := map[string]float64{}
	prices := map[string]driver.Price{}
	var errs []error
	for _, o := range offers {
		if o.Spot {
			if !slices.Contains(spotTypes, o.Type) {
				spotTypes = append(spotTypes, o.Type)
			}
			continue
		}
		if _, asked := onDemand[o.Type]; !asked {
			onDemand[o.Type], err = a.listPrice(ctx, o.Type, region, currency)
			errs = append(errs, err)
		}
		if amount := onDemand[o.Type]; amount > 0 {
			prices[o.String()] = driver.Price{Amount: amount, Currency: currency, Source: driver.PriceOfList}
		}
	}
	if len(spotTypes) > 0 {
		market, err := a.spotPrices(ctx, spotTypes)
		errs = append(errs, err)
		for _, o := range offers {
			if amount := market[o.Type+" "+o.Zone]; o.Spot && amount > 0 {
				prices[o.String()] = driver.Price{Amount: amount, Currency: currency, Source: driver.PriceOfSpot}
			}
		}
	}
	return prices, errors.Join(errs...)
}

// match is a filter of the price list.
type match struct {
	Type, Field, Value string
}

// listPrice returns what an hour of a machine with Linux costs by the price list; 0: the list does not have it.
func (a *account) listPrice(ctx context.Context, machineType, region, currency string) (float64, error) {
	query := struct {
		ServiceCode, FormatVersion string
		Filters                    []match
		MaxResults                 int
		NextToken                  string `json:",omitempty"`
	}{ServiceCode: "AmazonEC2", FormatVersion: "aws_v1", MaxResults: 100}
	for _, f := range [][2]string{
		{"instanceType", machineType},
		{"regionCode", region},
		{"operatingSystem", "Linux"},
		{"tenancy", "Shared"},
		{"preInstalledSw", "NA"},
		{"capacitystatus", "Used"},
		{"operation", "RunInstances"},
	} {
		query.Filters = append(query.Filters, match{"TERM_MATCH", f[0], f[1]})
	}
	for range mostPages {
		var page struct {
			PriceList []string
			NextToken string
		}
		if err := a.askList(ctx, "GetProducts", query, &page); err != nil {
			return 0, err
		}
		for _, text := range page.PriceList {
			if amount := hourly(text, currency); amount > 0 {
				return amount, nil
			}
		}
		if query.NextToken = page.NextToken; page.NextToken == "" {
			break
		}
	}
	return 0, nil
}

// hourly returns the price of an hour on demand of a product of the price list, or 0.
func hourly(text, currency string) float64 {
	var product struct {
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					Unit         string            `json:"unit"`
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			}
		} `json:"terms"`
	}
	if json.Unmarshal([]byte(text), &product) != nil {
		return 0
	}
	for _, term := range product.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			if amount, err := strconv.ParseFloat(d.PricePerUnit[currency], 64); err == nil && amount > 0 && d.Unit == "Hrs" {
				return amount
			}
		}
	}
	return 0
}

// askList makes a call to the price list. Few regions serve it, for all.
func (a *account) askList(ctx context.Context, action string, query, into any) error {
	body, err := json.Marshal(query)
	if err != nil {
		return err
	}
	return a.send(ctx, func(s *loaded) request {
		region := "us-east-1"
		if isChina(s.config.Region) {
			region = "cn-northwest-1"
		}
		return request{
			service: pricing, region: region, endpoint: endpointOf(ctx, s.config, "Pricing", "api.pricing", region), action: action,
			header: http.Header{"Content-Type": {jsonType + "1"}, "X-Amz-Target": {"AWSPriceListService." + action}}, body: string(body),
		}
	}, func(answer []byte) error { return json.Unmarshal(answer, into) })
}

// jsonError returns code and message of an error in AWS's JSON protocol.
func jsonError(text []byte) (code, message string) {
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &e) != nil {
		return "", ""
	}
	return core.Printable(e.Type[strings.LastIndex(e.Type, "#")+1:], 100), e.Message
}

// spotPrices returns what an hour of a spot machine with Linux costs now, by type and zone.
func (a *account) spotPrices(ctx context.Context, types []string) (map[string]float64, error) {
	params := url.Values{"ProductDescription.1": {"Linux/UNIX"}, "StartTime": {time.Now().UTC().Format(time.RFC3339)}, "MaxResults": {"1000"}}
	for i, name := range types {
		params.Set(fmt.Sprintf("InstanceType.%d", i+1), name)
	}
	prices, since := map[string]float64{}, map[string]time.Time{}
	for range mostPages {
		var page struct {
			Prices []struct {
				Type  string    `xml:"instanceType"`
				Zone  string    `xml:"availabilityZone"`
				Price float64   `xml:"spotPrice"`
				Since time.Time `xml:"timestamp"`
			} `xml:"spotPriceHistorySet>item"`
			Next string `xml:"nextToken"`
		}
		if err := a.call(ctx, "DescribeSpotPriceHistory", params, &page); err != nil {
			return prices, err
		}
		for _, p := range page.Prices {
			if at := p.Type + " " + p.Zone; !p.Since.Before(since[at]) {
				prices[at], since[at] = p.Price, p.Since
			}
		}
		if page.Next == "" {
			break
		}
		params.Set("NextToken", page.Next)
	}
	return prices, nil
}
