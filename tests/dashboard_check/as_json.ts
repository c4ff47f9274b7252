// Grafana's types as JSON holds them: members of an enum are their values.
export type AsJson<T> = unknown extends T
  ? T
  : T extends string
    ? `${T}`
    : T extends number
      ? `${T}` extends `${infer N extends number}`
        ? N
        : number
      : T extends boolean | null | undefined
        ? T
        : T extends (infer U)[]
          ? AsJson<U>[]
          : { [K in keyof T]: AsJson<T[K]> };

// Fields of an annotation that are its data source's own, which Grafana's types leave open: here, of Prometheus.
interface FromPrometheus {
  expr: string;
  step: string;
  titleFormat: string;
  textFormat: string;
  tagKeys: string;
}
type Annotation<D> = D extends { annotations?: { list?: (infer A)[] } } ? A : never;
export type Whole<D> = Omit<AsJson<D>, 'annotations'> & {
  annotations: { list: (AsJson<Annotation<D>> & FromPrometheus)[] };
};
