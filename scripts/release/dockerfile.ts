/** The stages of deploy/Dockerfile that a release builds, where it has built the executables before. */

/** The stage whose contents come from elsewhere: the executable and its documents. */
const FILES = /^COPY --from=documents \/out\//gm;

export interface Stages {
  /** A Dockerfile of the system: the base image with Debian's packages. */
  readonly system: string;
  /** A Dockerfile of the image, on the image `base`; the context has the files, `slicewire` and `doc`. */
  image(base: string): string;
}

/** Throws when the file has not the stages that are looked for. */
export function stagesOf(dockerfile: string): Stages {
  const stages = dockerfile.split(/^(?=FROM )/m);
  const system = stages.find((stage) => /^FROM \S+ AS system$/m.test(stage));
  const last = stages.at(-1);
  if (system === undefined || last === undefined || !/^FROM system$/m.test(last) || last.search(FILES) < 0)
    throw new Error('deploy/Dockerfile has no stage «system», or its last stage is not made of it and of «documents»');
  return {
    system: `ARG BASE_IMAGE\n${system}`,
    image: (base) => last.replace(/^FROM system$/m, `FROM ${base}`).replace(FILES, 'COPY '),
  };
}
