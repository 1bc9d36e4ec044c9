/* SPDX-License-Identifier: Apache-2.0 */
/* hone for C++11 and later: handles that close themselves, failures as exceptions. hone.h is the contract.
 *
 *	hone::handle h;
 *	hone::model m(h, "model.onnx");
 *	m.bind_input(0, image.data(), image.size() * sizeof image[0]);
 *	m.run();
 *	const float *scores = m.output<float>(0); */
#ifndef HONE_HPP
#define HONE_HPP

#include <hone.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hone
{

class error : public std::runtime_error
{
      public:
	explicit error(int status) : std::runtime_error(hone_error()), status_(status) {}
	int status() const noexcept { return status_; } /* enum hone_status */

      private:
	int status_;
};

inline int check(int rc)
{
	if (rc < 0)
		throw error(rc);
	return rc;
}

struct options : hone_options {
	options() { HONE_INIT(static_cast<hone_options &>(*this)); }
};

class handle
{
      public:
	handle() { check(hone_open(nullptr, &h_)); }
	explicit handle(const hone_options &o) { check(hone_open(&o, &h_)); }
	handle(handle &&o) noexcept : h_(o.h_) { o.h_ = nullptr; }
	handle &operator=(handle &&o) noexcept
	{
		std::swap(h_, o.h_);
		return *this;
	}
	handle(const handle &) = delete;
	handle &operator=(const handle &) = delete;
	~handle() { hone_close(h_); }
	hone_handle *get() const noexcept { return h_; }
	int threads() const noexcept { return hone_threads(h_); }

      private:
	hone_handle *h_ = nullptr;
};

/* May outlive its handle. */
class model
{
      public:
	model(const handle &h, const std::string &path, const std::vector<std::string> &shapes = {})
	{
		shape_list s(shapes);
		check(hone_load(h.get(), path.c_str(), &s.o, &m_));
	}
	model(const handle &h, const void *bytes, size_t n, const std::vector<std::string> &shapes = {})
	{
		shape_list s(shapes);
		check(hone_load_bytes(h.get(), bytes, n, &s.o, &m_));
	}
	model(const handle &h, const hone_kernel_want &want) { check(hone_kernel_find(h.get(), &want, &m_)); }
	model(model &&o) noexcept : m_(o.m_) { o.m_ = nullptr; }
	model &operator=(model &&o) noexcept
	{
		std::swap(m_, o.m_);
		return *this;
	}
	model(const model &) = delete;
	model &operator=(const model &) = delete;
	~model() { hone_model_close(m_); }
	hone_model *get() const noexcept { return m_; }

	int inputs() const noexcept { return hone_inputs(m_); }
	int outputs() const noexcept { return hone_outputs(m_); }
	hone_tensor input_info(int i) const
	{
		hone_tensor t;
		HONE_INIT(t);
		check(hone_input(m_, i, &t));
		return t;
	}
	hone_tensor output_info(int i) const
	{
		hone_tensor t;
		HONE_INIT(t);
		check(hone_output(m_, i, &t));
		return t;
	}
	int find_input(const std::string &name) const { return check(hone_find_input(m_, name.c_str())); }
	int find_output(const std::string &name) const { return check(hone_find_output(m_, name.c_str())); }
	void bind_input(int i, const void *data, size_t bytes) { check(hone_bind_input(m_, i, data, bytes)); }
	void bind_output(int i, void *data, size_t bytes) { check(hone_bind_output(m_, i, data, bytes)); }
	/* The model's own buffers. */
	template <class T> T *input(int i) { return static_cast<T *>(buffer(hone_input_buffer(m_, i))); }
	template <class T> T *output(int i) { return static_cast<T *>(buffer(hone_output_buffer(m_, i))); }

	void run() { check(hone_run(m_)); }
	void run_on(const void *const *in, void *const *out) { check(hone_run_on(m_, in, out)); }
	void run_async() { check(hone_run_async(m_)); }
	bool ended() const noexcept { return hone_poll(m_) != 0; }
	/* Returns false at a timeout. */
	bool wait(int timeout_ms = -1)
	{
		int rc = hone_wait(m_, timeout_ms);
		return rc == HONE_TIMEOUT ? false : check(rc) >= 0;
	}
	void cancel() noexcept { hone_cancel(m_); }
	bool refresh() { return check(hone_refresh(m_)) > 0; }

	/* The device that runs it now: "opencl:0", "cuda:0" or "cpu"; summary().device_why says why it is not the one
	 * that was asked for. */
	std::string device() const { return hone_device(m_); }
	hone_model_info summary() const
	{
		hone_model_info s;
		HONE_INIT(s);
		check(hone_summary(m_, &s));
		return s;
	}
	/* A refresh at the same time may leave fewer kernels: then this throws HONE_USAGE. */
	std::vector<hone_kernel_info> kernels() const
	{
		std::vector<hone_kernel_info> all(static_cast<size_t>(hone_kernels(m_)));
		for (size_t i = 0; i < all.size(); i++) {
			HONE_INIT(all[i]);
			check(hone_kernel(m_, static_cast<int>(i), &all[i]));
		}
		return all;
	}

      private:
	struct shape_list {
		explicit shape_list(const std::vector<std::string> &shapes)
		{
			for (const std::string &s : shapes)
				text.push_back(s.c_str());
			HONE_INIT(o);
			o.shapes = text.data();
			o.nshapes = static_cast<int>(text.size());
		}
		std::vector<const char *> text;
		hone_load_options o;
	};
	static void *buffer(void *p)
	{
		if (!p)
			throw error(HONE_USAGE);
		return p;
	}
	hone_model *m_ = nullptr;
};

} // namespace hone

#endif
