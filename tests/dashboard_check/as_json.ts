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
