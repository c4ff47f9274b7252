// An OpenTelemetry Collector with the parts that deploy/collector*.yaml name, files out to compare with, OTLP out
// for flowdiff's own receiver, and Kafka in and groupbytrace for tests/bench/bench_beside_collector.py.
package main

import (
	"log"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/groupbytraceprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kafkareceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// parts makes the factories of the sections of a configuration; the first error wins.
func parts() (all otelcol.Factories, err error) {
	all.Telemetry = otelconftelemetry.NewFactory()
	if all.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory(), kafkareceiver.NewFactory()); err != nil {
		return
	}
	if all.Processors, err = otelcol.MakeFactoryMap[processor.Factory](batchprocessor.NewFactory(), groupbytraceprocessor.NewFactory()); err != nil {
		return
	}
	if all.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](filestorage.NewFactory()); err != nil {
		return
	}
	all.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](kafkaexporter.NewFactory(), fileexporter.NewFactory(), otlpexporter.NewFactory(), otlphttpexporter.NewFactory())
	return
}

func main() {
	providers := []confmap.ProviderFactory{envprovider.NewFactory(), fileprovider.NewFactory()}
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo:              component.BuildInfo{Command: "otelcol", Description: "for tests", Version: "0"},
		Factories:              parts,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{ProviderFactories: providers}},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
