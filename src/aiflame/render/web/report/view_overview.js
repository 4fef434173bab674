// The view overview.

export const view = {
  name: "overview",
  title: "Overview",
  key: "1",
  create() {
    const body = document.createElement("section");
    return { body, show() {} };
  },
};
